//! `transform`: files of every kind, element by element, and long ones in little memory.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use crate::{folder, npy, parts, says, tool};

/// Elements 0, 1, 2, ... in the order of the file.
fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect()
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|cell| f32::from_le_bytes(cell.try_into().expect("four bytes"))).collect()
}

/// Transforms a file and returns shape text and data of the result.
fn transformed(folder: &Path, input: &[u8], arguments: &[&str]) -> (String, Vec<u8>) {
    fs::write(folder.join("in.npy"), input).expect("writable");
    let files = [folder.join("in.npy"), folder.join("out.npy")];
    let files: Vec<&str> = files.iter().map(|file| file.to_str().expect("UTF-8")).collect();
    says(&[&["transform"], &files[..], arguments].concat());
    parts(&fs::read(folder.join("out.npy")).expect("it is there"))
}

#[test]
fn every_element_arrives() {
    let folder = folder("arrives");
    let (n, c, h, w) = (2, 6, 4, 5);
    // File orders by their letters; the value of an element is where it lies in the source.
    for (from, to) in
        [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("CHWN", "NCHW"), ("NCHW", "HWCN"), ("NHWC", "NHWC")]
    {
        let extent = |letter| match letter {
            'N' => n,
            'C' => c,
            'H' => h,
            _ => w,
        };
        let shape: Vec<i64> = from.chars().map(extent).collect();
        for fortran in [false, true] {
            let (text, data) = transformed(
                &folder,
                &npy("<f4", fortran, &shape, &floats(240)),
                &["--from", from, "--to", to],
            );
            let out_shape: Vec<String> = to.chars().map(|letter| extent(letter).to_string()).collect();
            assert!(
                text.contains(&format!("'fortran_order': False, 'shape': ({}), ", out_shape.join(", "))),
                "{text}"
            );
            let data = as_floats(&data);
            assert_eq!(data.len(), 240);
            for (at, &value) in data.iter().enumerate() {
                // Coordinates by letter, from the place in the destination.
                let mut rest = at as i64;
                let mut index = std::collections::BTreeMap::new();
                for letter in to.chars().rev() {
                    index.insert(letter, rest % extent(letter));
                    rest /= extent(letter);
                }
                let letters: Vec<char> =
                    if fortran { from.chars().rev().collect() } else { from.chars().collect() };
                let place = letters.iter().fold(0, |place, letter| place * extent(*letter) + index[letter]);
                assert_eq!(value, place as f32, "{from} {to} fortran {fortran} at {at}");
            }
        }
    }
}

#[test]
fn blocks_padding_scale_and_types() {
    let folder = folder("blocks");
    // 1 x 3 x 2 x 2: channels 0..3, 4..7, 8..11.
    let input = npy("<f4", false, &[1, 3, 2, 2], &floats(12));
    let (text, data) = transformed(&folder, &input, &["--to", "nChw4c", "--type", "int8", "--scale", "2"]);
    assert!(text.contains("'|i1'") && text.contains("(1, 1, 2, 2, 4)"), "{text}");
    assert_eq!(data, [0, 8, 16, 0, 2, 10, 18, 0, 4, 12, 20, 0, 6, 14, 22, 0]);
    let blocked = npy("|i1", false, &[1, 1, 2, 2, 4], &data);
    let (text, back) = transformed(&folder, &blocked, &["--from", "nChw4c", "--to", "NCHW", "--type", "f32"]);
    assert!(text.contains("(1, 4, 2, 2)"), "{text}");
    assert_eq!(as_floats(&back)[..12], as_floats(&floats(12)).iter().map(|v| v * 2.0).collect::<Vec<_>>());
    let (text, data) =
        transformed(&folder, &input, &["--to", "NHWC", "--pad-channels", "4", "--type", "half"]);
    assert!(text.contains("'<f2'") && text.contains("(1, 2, 2, 4)"), "{text}");
    // 0, 4 and 8 as binary16, and a zero.
    assert_eq!(data[..8], [0, 0, 0, 0x44, 0, 0x48, 0, 0]);
    let (text, data) = transformed(&folder, &input, &["--crop", "1,0,0,1"]);
    assert!(text.contains("(1, 3, 1, 1)"), "{text}");
    assert_eq!(as_floats(&data), [2.0, 6.0, 10.0]);
    let (text, folded) = transformed(&folder, &input, &["--fold", "2,2"]);
    assert!(text.contains("(1, 12, 1, 1)"), "{text}");
    let (text, back) =
        transformed(&folder, &npy("<f4", false, &[1, 12, 1, 1], &folded), &["--unfold", "2,2"]);
    assert!(text.contains("(1, 3, 2, 2)"), "{text}");
    assert_eq!(back, floats(12));
    // Blocks of which one is cut by another.
    let (_, data) = transformed(
        &folder,
        &npy("<f4", false, &[1, 1, 1, 1, 4], &floats(4)),
        &["--from", "nChw4c", "--to", "nChw8c"],
    );
    assert_eq!(as_floats(&data), [0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn names_of_filters_and_images_in_any_case() {
    let folder = folder("names");
    let filter = npy("<f4", false, &[2, 3, 2, 2], &floats(24));
    let (text, data) = transformed(&folder, &filter, &["--from", "KCRS", "--to", "krsc"]);
    let (_, plain) = transformed(&folder, &filter, &["--from", "nchw", "--to", "NHWC"]);
    assert!(text.contains("(2, 2, 2, 3)"), "{text}");
    assert_eq!(data, plain);
    assert_eq!(as_floats(&data)[..4], [0.0, 4.0, 8.0, 1.0]);
    let (text, data) =
        transformed(&folder, &npy("<f4", false, &[3, 2, 2], &floats(12)), &["--from", "CHW", "--to", "hwc"]);
    assert!(text.contains("'shape': (2, 2, 3), "), "{text}");
    assert_eq!(as_floats(&data)[..4], [0.0, 4.0, 8.0, 1.0]);
}

#[test]
fn channels_lead_back_from_padding() {
    let folder = folder("channels");
    let input = npy("<f4", false, &[2, 3, 2, 2], &floats(24));
    for (there, back) in [
        (&["--to", "nChw8c"][..], &["--from", "nChw8c", "--to", "NCHW", "--channels", "3"][..]),
        (&["--to", "NHWC", "--pad-channels", "32"], &["--from", "NHWC", "--to", "NCHW", "--channels", "3"]),
        (&["--pad-channels", "5"], &["--channels", "3"]),
    ] {
        transformed(&folder, &input, there);
        let padded = fs::read(folder.join("out.npy")).expect("it is there");
        let (text, data) = transformed(&folder, &padded, back);
        assert!(text.contains("(2, 3, 2, 2)"), "{there:?}: {text}");
        assert_eq!(data, floats(24), "{there:?}");
    }
}

#[test]
fn bits_of_types_that_numpy_lacks_are_read() {
    let folder = folder("bits");
    let input = npy("<f4", false, &[1, 1, 1, 4], &floats(4));
    for (name, descr) in [("bf16", "'<u2'"), ("fp8_e4m3", "'|u1'"), ("fp8_e5m2", "'|u1'")] {
        let (text, _) = transformed(&folder, &input, &["--type", name]);
        assert!(text.contains(descr), "{text}");
        let bits = fs::read(folder.join("out.npy")).expect("it is there");
        let (_, back) = transformed(&folder, &bits, &["--from-type", name, "--type", "float"]);
        assert_eq!(back, floats(4), "{name}");
    }
}

#[test]
fn other_ranks_and_one_image() {
    let folder = folder("ranks");
    let (text, data) =
        transformed(&folder, &npy("<f4", false, &[2, 2, 3], &floats(12)), &["--to", "BMN:col"]);
    assert!(text.contains("(2, 3, 2)"), "{text}");
    assert_eq!(as_floats(&data)[..6], [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let (text, _) = transformed(&folder, &npy("<f4", false, &[2, 3], &floats(6)), &["--to", "CN"]);
    assert!(text.contains("(3, 2)"), "{text}");
    // An image without a batch is a batch of one.
    let (text, data) = transformed(
        &folder,
        &npy("<f4", false, &[2, 2, 3], &floats(12)),
        &["--from", "NHWC", "--to", "NCHW"],
    );
    assert!(text.contains("(1, 3, 2, 2)"), "{text}");
    assert_eq!(as_floats(&data)[..4], [0.0, 3.0, 6.0, 9.0]);
}

#[test]
fn pictures_go_through_every_format() {
    let folder = folder("pictures");
    let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demo/chelsea.ppm");
    let name = |file: &str| folder.join(file).to_str().expect("UTF-8").to_owned();
    let go = |input: &str, output: &str, arguments: &[&str]| {
        says(&[&["transform", input, output], arguments].concat())
    };
    let photo = photo.to_str().expect("UTF-8");
    go(photo, &name("planes.npy"), &["--to", "NCHW", "--type", "float", "--scale", "0.5"]);
    go(&name("planes.npy"), &name("back.png"), &["--from", "NCHW", "--scale", "2"]);
    go(&name("back.png"), &name("back.ppm"), &[]);
    let (one, other) =
        (fs::read(photo).expect("the photograph"), fs::read(name("back.ppm")).expect("written"));
    let (text, _) = parts(&fs::read(name("planes.npy")).expect("written"));
    assert!(text.contains("(1, 3, 300, 451)"), "{text}");
    let pixels = 3 * 300 * 451;
    assert_eq!(one[one.len() - pixels..], other[other.len() - pixels..]);
    go(photo, &name("small.jpg"), &["--crop", "100,100,100,100"]);
    go(&name("small.jpg"), &name("small.npy"), &[]);
    let (text, data) = parts(&fs::read(name("small.npy")).expect("written"));
    assert!(text.contains("'|u1'") && text.contains("(1, 100, 251, 3)"), "{text}");
    let expected = |row: usize, column: usize, channel: usize| {
        one[one.len() - pixels + ((row + 100) * 451 + column + 100) * 3 + channel]
    };
    let far = (0..100 * 251 * 3).map(|at| data[at].abs_diff(expected(at / 3 / 251, at / 3 % 251, at % 3)));
    assert!(far.map(u32::from).sum::<u32>() < 100 * 251 * 3 * 8, "a JPEG loses little");
}

#[test]
fn pipes_carry_arrays() {
    let mut child = tool()
        .args(["transform", "-", "-", "--from", "NHWC", "--to", "NCHW"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    let input = npy("<f4", false, &[1, 2, 2, 3], &floats(12));
    child.stdin.take().expect("piped").write_all(&input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(
        as_floats(&parts(&output.stdout).1),
        [0.0, 3.0, 6.0, 9.0, 1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0]
    );
}

#[test]
fn a_file_can_replace_itself_and_keeps_to_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("itself");
    let file = folder.join("a.npy");
    fs::write(&file, npy("<f4", false, &[1, 2, 2, 3], &floats(12))).expect("writable");
    let name = file.to_str().expect("UTF-8");
    says(&["transform", name, name, "--from", "NHWC", "--to", "NCHW"]);
    says(&["transform", name, name, "--from", "NCHW", "--to", "NHWC"]);
    assert_eq!(parts(&fs::read(&file).expect("there")).1, floats(12));
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o111, 0);
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o600, 0o600);
}

/// Runs the tool to its end; the most memory that it had at a time, in kilobytes.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
fn peak(arguments: &[&str]) -> i64 {
    let child = tool().args(arguments).spawn().expect("the tool starts");
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: our own child, valid places; nobody else waits for it.
    let ended = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((ended, status), (child.id() as libc::pid_t, 0));
    // SAFETY: zeros are valid, and wait4 has filled it.
    unsafe { usage.assume_init() }.ru_maxrss
}

/// 4 GB with `CUDNN_SHIM_TEST_GB=4`, as the whole test run has it; else a quarter, which is more
/// than the limit too.
#[test]
fn long_files_take_little_memory() {
    let folder = folder("long");
    let quarters: u64 = std::env::var("CUDNN_SHIM_TEST_GB")
        .ok()
        .and_then(|text| text.parse().ok())
        .map_or(1, |gb: u64| gb * 4);
    let (h, w) = (1 << 11, 1 << 11);
    let c = quarters * 64;
    // One image, and a batch that lies innermost: neither has whole images side by side. Then one
    // image that changes.
    let cases: [(_, _, _, &[&str]); 5] = [
        ("NHWC", "NCHW", [1, h, w, c], &[]),
        ("CHWN", "NCHW", [c, 1 << 6, 1 << 8, 1 << 8], &[]),
        ("NHWC", "NCHW", [1, h, w, 64], &["--crop", "1,2,3,4"]),
        ("NCHW", "NHWC", [1, 61, h, w], &["--pad-channels", "32"]),
        ("NCHW", "NHWC", [1, 64, h, w], &["--fold", "2,4"]),
    ];
    for (from, to, shape, change) in cases {
        let input = folder.join("in.npy");
        let header = npy("|u1", false, &shape.map(|extent| extent as i64), &[]);
        let file = File::create(&input).expect("writable");
        let total: u64 = shape.iter().product();
        file.set_len(header.len() as u64 + total).expect("the file may have holes");
        file.write_all_at(&header, 0).expect("writable");
        // A few marks in a sea of zeros.
        let place = |from: &[u64], index: &[u64]| {
            from.iter().zip(index).fold(0, |place, (extent, at)| place * extent + at)
        };
        let marks: Vec<[u64; 4]> = (0..40)
            .map(|k: u64| {
                std::array::from_fn(|axis| (k * 7919 + 31 * axis as u64 + k * k) * 104_729 % shape[axis])
            })
            .collect();
        for index in &marks {
            file.write_all_at(&[1], header.len() as u64 + place(&shape, index)).expect("writable");
        }
        let output = folder.join("out.npy");
        let [input, name] = [&input, &output].map(|file| file.to_str().expect("UTF-8").to_owned());
        let peak = peak(&[&["transform", &input, &name, "--from", from, "--to", to], change].concat());
        assert!(peak < 100_000, "{peak} kB for {from} to {to} {change:?}");
        let logical = |of: &[u64; 4]| -> [u64; 4] {
            ["N", "C", "H", "W"].map(|letter| of[from.find(letter).expect("the same letters")])
        };
        // Where a change brings N, C, H and W of an element, and the extents; `None` for what is
        // cropped away.
        let [_, channels, height, width] = logical(&shape);
        let changed = |[n, c, y, x]: [u64; 4]| match change.first() {
            Some(&"--crop") => {
                let inside = (1..height - 2).contains(&y) && (3..width - 4).contains(&x);
                inside.then(|| [n, c, y - 1, x - 3])
            }
            Some(&"--fold") => Some([n, (y % 2 * 4 + x % 4) * channels + c, y / 2, x / 4]),
            _ => Some([n, c, y, x]),
        };
        let extents = match change.first() {
            Some(&"--crop") => [1, channels, height - 3, width - 7],
            Some(&"--fold") => [1, channels * 8, height / 2, width / 4],
            Some(_) => [1, channels.next_multiple_of(32), height, width],
            None => logical(&shape),
        };
        let placed = |of: [u64; 4]| -> Vec<u64> {
            to.chars().map(|letter| of["NCHW".find(letter).expect("a letter of four")]).collect()
        };
        let out_shape = placed(extents);
        let file = File::open(&output).expect("it is there");
        let skip = file.metadata().expect("it is there").len() - extents.iter().product::<u64>();
        for index in marks.iter().filter_map(|index| changed(logical(index))) {
            let index = placed(index);
            let mut cell = [0];
            file.read_exact_at(&mut cell, skip + place(&out_shape, &index)).expect("long enough");
            assert_eq!(cell, [1], "{from} {to} {index:?}");
        }
        drop(file);
        fs::remove_file(&output).expect("removable");
    }
    fs::remove_dir_all(&folder).expect("removable");
}
