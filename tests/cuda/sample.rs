//! Spatial transformers on both cores, equal in every bit.

use cudnn::desc::{Format, SpatialTransformerDescriptor};
use cudnn::dtype::DataType;
use cudnn::layout::Dims;
use cudnn::mode::Mode;
use cudnn::ops::Scaling;
use cudnn::ops::spatial_transformer::{GridPlan, SamplerPlan};

use crate::cores::Cores;
use crate::double;
use crate::specialised::moderate;
use crate::tensors::{Tensor, format};

const TYPES: [DataType; 6] =
    [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16, DataType::Int8, DataType::Int8x4];
const GRIDS: [DataType; 3] = [DataType::Float, DataType::Double, DataType::Half];
const SHAPES: [[i64; 6]; 7] = [
    [2, 3, 5, 7, 6, 4],
    [1, 12, 20, 30, 17, 19],
    [3, 1, 1, 40, 1, 33],
    [1, 9, 2, 2, 3, 3],
    [2, 4, 33, 1, 2, 5],
    [1, 2, 1, 1, 4, 4],
    [1, 1, 40, 50, 1, 1],
];

impl Cores {
    fn picture(&mut self, data_type: DataType, dims: &[i64]) -> Tensor {
        if data_type == DataType::Int8x4 {
            let dims = [dims[0], dims[1] * 4, dims[2], dims[3]];
            return format(data_type, Format::NchwVectC, &dims);
        }
        match self.rng.below(4) {
            0 => format(data_type, Format::Nchw, dims),
            1 => format(data_type, Format::Nhwc, dims),
            _ => self.laid_out(data_type, dims, false),
        }
    }

    /// Places around a picture, or any bits at all.
    fn places(&mut self, grid: Tensor) -> Vec<u8> {
        let mut bytes = self.rng.bytes(grid.size());
        let size = grid.desc.data_type().size();
        if self.rng.below(4) > 0 {
            for cell in bytes.chunks_exact_mut(size) {
                let place = (self.rng.below(2601) as f64 - 1300.0) / 1000.0;
                match size {
                    8 => cell.copy_from_slice(&place.to_le_bytes()),
                    4 => cell.copy_from_slice(&(place as f32).to_le_bytes()),
                    _ => cell.copy_from_slice(&half::f16::from_f64(place).to_le_bytes()),
                }
            }
        }
        bytes
    }
}

/// More pictures than 16 bits count; gradients have a block for each, for which the double takes
/// minutes.
fn many(cores: &mut Cores) {
    let dims = [70_000, 1, 1, 2];
    let desc = SpatialTransformerDescriptor { data_type: DataType::Float, rank: 4, dims: Dims::new(&dims) };
    let [x, y] = [[70_000, 1, 2, 1], dims].map(|dims| format(DataType::Float, Format::Nhwc, &dims));
    let grid = format(DataType::Float, Format::Nchw, &[70_000, 1, 2, 2]);
    let contents = [cores.before(y, 0.0), cores.rng.bytes(x.size()), cores.places(grid)];
    let plan = SamplerPlan::forward(&desc, &x.desc, &y.desc, Scaling::MOVE, Mode::Extended).expect("a plan");
    cores.agree(&plan, &[y, x, grid], &contents);
}

/// More positions than a device has threads, each of which samples all channels, in three rounds.
fn deep(cores: &mut Cores) {
    let dims = [1, 17, 512, 512];
    let desc = SpatialTransformerDescriptor { data_type: DataType::Float, rank: 4, dims: Dims::new(&dims) };
    let [x, y] = [[1, 17, 6, 7], dims].map(|dims| format(DataType::Half, Format::Nchw, &dims));
    let grid = format(DataType::Float, Format::Nchw, &[1, 512, 512, 2]);
    let contents =
        [vec![0xff; y.size()], moderate(&mut cores.rng, DataType::Half, x.size()), cores.places(grid)];
    let plan = SamplerPlan::forward(&desc, &x.desc, &y.desc, Scaling::MOVE, Mode::Extended).expect("a plan");
    cores.agree(&plan, &[y, x, grid], &contents);
}

/// Pictures of one type without factors, fewer channels than a thread has, as many and more; in
/// either layout, and from one into the other.
pub fn plain(cores: &mut Cores) {
    const LAYOUTS: [Format; 2] = [Format::Nchw, Format::Nhwc];
    for data_type in [DataType::Float, DataType::Half, DataType::Bfloat16] {
        for (number, channels) in [1, 5, 8, 13, 16, 35].into_iter().enumerate() {
            let from = LAYOUTS[number % 2];
            let to = if number < 3 { from } else { cores.rng.pick(&LAYOUTS) };
            let x = format(data_type, from, &[2, channels, 7, 6]);
            let y = format(data_type, to, &[2, channels, 5, 9]);
            let grid_type = [DataType::Float, DataType::Half][number / 2 % 2];
            let desc = SpatialTransformerDescriptor {
                data_type: grid_type,
                rank: 4,
                dims: Dims::new(&[2, channels, 5, 9]),
            };
            let grid = format(grid_type, Format::Nchw, &[2, 5, 9, 2]);
            let places = cores.places(grid);
            let plan =
                SamplerPlan::forward(&desc, &x.desc, &y.desc, Scaling::MOVE, Mode::Extended).expect("a plan");
            let contents = [vec![0xff; y.size()], moderate(&mut cores.rng, data_type, x.size()), places];
            cores.agree(&plan, &[y, x, grid], &contents);
            let factors = [Scaling::MOVE, cores.scaling()];
            let plan = SamplerPlan::backward(&desc, [&x.desc, &x.desc, &y.desc], factors, Mode::Extended)
                .expect("a plan");
            let contents = [
                vec![0xff; x.size()],
                cores.before(grid, factors[1].beta),
                moderate(&mut cores.rng, data_type, x.size()),
                moderate(&mut cores.rng, data_type, y.size()),
                cores.places(grid),
            ];
            cores.agree(&plan, &[x, grid, x, y, grid], &contents);
        }
        // Pixels of several blocks, and one that more positions touch than a thread finds at once.
        let x = format(data_type, Format::Nchw, &[1, 33, 20, 31]);
        let y = format(data_type, Format::Nchw, &[1, 33, 25, 29]);
        let desc = SpatialTransformerDescriptor {
            data_type: DataType::Float,
            rank: 4,
            dims: Dims::new(&[1, 33, 25, 29]),
        };
        let grid = format(DataType::Float, Format::Nchw, &[1, 25, 29, 2]);
        let mut places = cores.places(grid);
        places[..8 * 60].fill(0);
        let plan =
            SamplerPlan::backward(&desc, [&x.desc, &x.desc, &y.desc], [Scaling::MOVE; 2], Mode::Extended)
                .expect("a plan");
        let contents = [
            vec![0xff; x.size()],
            vec![0xff; grid.size()],
            moderate(&mut cores.rng, data_type, x.size()),
            moderate(&mut cores.rng, data_type, y.size()),
            places,
        ];
        cores.agree(&plan, &[x, grid, x, y, grid], &contents);
    }
}

/// Everything here.
pub fn all(cores: &mut Cores) {
    many(cores);
    deep(cores);
    for case in (0..120).filter(|&case| double::is_sampled(case / 2)) {
        let [n, c, h, w, p, q] = SHAPES[case % SHAPES.len()];
        let data_type = cores.rng.pick(&TYPES);
        let other = if cores.rng.below(3) > 0 { data_type } else { cores.rng.pick(&TYPES) };
        let grid_type = cores.rng.pick(&GRIDS);
        let desc =
            SpatialTransformerDescriptor { data_type: grid_type, rank: 4, dims: Dims::new(&[n, c, p, q]) };
        let (grid, theta) =
            (format(grid_type, Format::Nchw, &[n, p, q, 2]), format(grid_type, Format::Nchw, &[n, 2, 3]));
        let (maps, places) = (cores.rng.bytes(theta.size()), cores.places(grid));
        let given = cores.rng.bytes(grid.size());
        let empty = |tensor: Tensor| vec![0xff; tensor.size()];
        let plan = GridPlan::forward(&desc).expect("a plan");
        cores.agree(&plan, &[grid, theta], &[empty(grid), maps]);
        let plan = GridPlan::backward(&desc).expect("a plan");
        cores.agree(&plan, &[theta, grid], &[empty(theta), given]);
        let x = cores.picture(data_type, &[n, c, h, w]);
        let of_lanes = |data_type: DataType| data_type == DataType::Int8x4;
        if of_lanes(data_type) == of_lanes(other) {
            let y = cores.picture(other, &[n, c, p, q]);
            let scaling = cores.scaling();
            let plan =
                SamplerPlan::forward(&desc, &x.desc, &y.desc, scaling, Mode::Extended).expect("a plan");
            let contents = [cores.before(y, scaling.beta), cores.rng.bytes(x.size()), places.clone()];
            cores.agree(&plan, &[y, x, grid], &contents);
        }
        let (dx, dy) = (cores.picture(data_type, &[n, c, h, w]), cores.picture(data_type, &[n, c, p, q]));
        let factors: [Scaling; 2] = [cores.scaling(), cores.scaling()];
        let plan = SamplerPlan::backward(&desc, [&x.desc, &dx.desc, &dy.desc], factors, Mode::Extended)
            .expect("a plan");
        let contents = [
            cores.before(dx, factors[0].beta),
            cores.before(grid, factors[1].beta),
            cores.rng.bytes(x.size()),
            cores.rng.bytes(dy.size()),
            places,
        ];
        cores.agree(&plan, &[dx, grid, x, dy, grid], &contents);
    }
}
