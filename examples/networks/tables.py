"""Writes the tables of this folder: `python3 tables.py`."""

import pathlib

HERE = pathlib.Path(__file__).parent


def write(name, what, extents, lines):
    text = f"# {what}\ninput {' '.join(map(str, extents))}\n" + "\n".join(lines) + "\n"
    (HERE / f"{name}.txt").write_text(text)


def resnet50():
    lines = ["conv1 = conv input k=64 r=7 s=2 p=3 norm relu", "pool1 = maxpool conv1 r=3 s=2 p=1"]
    last = "pool1"
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=2):
        for block in range(blocks):
            name = f"conv{stage}_{block + 1}"
            stride = 2 if stage > 2 and block == 0 else 1
            shortcut = last
            lines.append(f"{name}a = conv {last} k={width} r=1 norm relu")
            lines.append(f"{name}b = conv {name}a k={width} r=3 s={stride} p=1 norm relu")
            if block == 0:
                shortcut = f"{name}s"
                lines.append(f"{shortcut} = conv {last} k={4 * width} r=1 s={stride} norm")
            lines.append(f"{name}c = conv {name}b k={4 * width} r=1 norm relu add={shortcut}")
            last = f"{name}c"
    lines += [f"mean = avgpool {last}", "classes = conv mean k=1000 r=1 bias"]
    write("resnet50", "ResNet-50 (He et al., 2015), with the stride in the 3x3 layers", (3, 224, 224), lines)


def vgg16():
    lines, last = [], "input"
    for stage, (layers, width) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], start=1):
        for layer in range(1, layers + 1):
            lines.append(f"conv{stage}_{layer} = conv {last} k={width} r=3 p=1 bias relu")
            last = f"conv{stage}_{layer}"
        lines.append(f"pool{stage} = maxpool {last} r=2 s=2")
        last = f"pool{stage}"
    lines += [
        f"dense1 = conv {last} k=4096 r=7 bias relu",
        "dense2 = conv dense1 k=4096 r=1 bias relu",
        "classes = conv dense2 k=1000 r=1 bias",
    ]
    write("vgg16", "VGG-16 (Simonyan and Zisserman, 2014); dense layers as convolutions", (3, 224, 224), lines)


def mobilenet_v2():
    lines, last, channels, number = ["conv1 = conv input k=32 r=3 s=2 p=1 norm relu6"], "conv1", 32, 0
    for expand, width, blocks, stride in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ]:
        for block in range(blocks):
            number += 1
            name, source, s = f"block{number}", last, stride if block == 0 else 1
            if expand > 1:
                lines.append(f"{name}a = conv {last} k={expand * channels} r=1 norm relu6")
                source = f"{name}a"
            lines.append(f"{name}b = conv {source} r=3 s={s} p=1 depthwise norm relu6")
            add = f" add={last}" if s == 1 and channels == width else ""
            lines.append(f"{name}c = conv {name}b k={width} r=1 norm{add}")
            last, channels = f"{name}c", width
    lines += [
        f"head = conv {last} k=1280 r=1 norm relu6", "mean = avgpool head", "classes = conv mean k=1000 r=1 bias"
    ]
    write("mobilenet_v2", "MobileNet-v2 (Sandler et al., 2018)", (3, 224, 224), lines)


def yolov3_tiny():
    lines, last = [], "input"
    for number, width in enumerate([16, 32, 64, 128, 256, 512], start=1):
        lines.append(f"conv{number} = conv {last} k={width} r=3 p=1 norm leaky")
        lines.append(f"pool{number} = maxpool conv{number} " + ("r=2 s=2" if number < 6 else "shifted"))
        last = f"pool{number}"
    lines += [
        "conv7 = conv pool6 k=1024 r=3 p=1 norm leaky",
        "conv8 = conv conv7 k=256 r=1 norm leaky",
        "conv9 = conv conv8 k=512 r=3 p=1 norm leaky",
        "coarse = conv conv9 k=255 r=1 bias",
        "conv10 = conv conv8 k=128 r=1 norm leaky",
        "large = upsample conv10",
        "both = concat large conv5",
        "conv11 = conv both k=256 r=3 p=1 norm leaky",
        "fine = conv conv11 k=255 r=1 bias",
    ]
    write("yolov3_tiny", "YOLOv3-tiny (Redmon and Farhadi, 2018); its last layer is the finer of two", (3, 416, 416), lines)


def small():
    lines = [
        "conv1 = conv input k=16 r=3 p=1 norm relu",
        "conv2 = conv conv1 k=16 r=3 p=1 norm relu add=conv1",
        "pool = maxpool conv2 r=2 s=2",
        "deep = conv pool r=3 p=1 depthwise norm relu6",
        "mean = avgpool deep",
        "classes = conv mean k=10 r=1 bias",
    ]
    write("small", "A residual block, a pooling and a depthwise layer: for quick tests", (3, 32, 32), lines)


for network in (resnet50, vgg16, mobilenet_v2, yolov3_tiny, small):
    network()
