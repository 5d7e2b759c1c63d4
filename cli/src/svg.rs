//! The picture of a layout as SVG: the tensor's planes, coloured by channel, over the runs of
//! memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::figure::{Cell, Figure};

/// Height of a cell, and the room around things.
const HEIGHT: i64 = 22;
const MARGIN: i64 = 16;
/// The widest picture; planes that do not fit go to the next line.
const WIDTH: i64 = 960;

/// A picture that grows downwards.
struct Canvas {
    body: String,
    /// What lies under the cells, so that their numbers can be read.
    under: String,
    width: i64,
    height: i64,
}

impl Canvas {
    fn grow(&mut self, x: i64, y: i64) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    fn text(&mut self, x: i64, y: i64, class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>");
    }

    fn cell(&mut self, x: i64, y: i64, width: i64, cell: Cell) {
        let (fill, text) = match cell {
            Cell::Element { value, hue } => (colour(hue), value.to_string()),
            Cell::Padding => ("#eeeeee".to_owned(), "0".to_owned()),
            Cell::More => return self.text(x + width / 2, y + 15, "m", "…"),
        };
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{fill}\" class=\"c\"/>"
        );
        self.text(x + width / 2, y + 15, if cell == Cell::Padding { "p" } else { "v" }, &text);
        self.grow(x + width, y + HEIGHT);
    }
}

/// Hues a golden angle apart, so that neighbours differ.
fn degrees(hue: i64) -> i64 {
    (hue.rem_euclid(360) * 137 + 205) % 360
}

/// The colour of a cell, light enough for dark text.
fn colour(hue: i64) -> String {
    format!("hsl({}, 62%, {}%)", degrees(hue), if hue % 2 == 0 { 78 } else { 70 })
}

/// The colour of an arrow from such a cell, which is seen on light and dark ground.
fn line_colour(hue: i64) -> String {
    format!("hsl({}, 62%, 50%)", degrees(hue))
}

/// Where the cells of memory were drawn, and their hues: by value, the first of each.
type Places = BTreeMap<i64, (i64, i64, i64)>;

/// The picture of one layout, or of two with arrows from every element of the first that the second
/// shows too.
pub fn draw(title: &str, figure: &Figure, to: Option<(&str, &Figure)>) -> String {
    let mut canvas = Canvas { body: String::new(), under: String::new(), width: 0, height: MARGIN };
    let digits = to.map_or(0, |(_, figure)| figure.digits()).max(figure.digits()) as i64;
    let cell = (digits * 9 + 10).max(26);
    canvas.text(MARGIN, MARGIN + 12, "t", title);
    let width = canvas_width(title);
    canvas.grow(width, MARGIN + 24);
    planes(&mut canvas, figure, cell);
    let top = canvas.height + 12;
    let from = runs(&mut canvas, figure, MARGIN, top, cell, "memory, from the lowest address");
    if let Some((name, other)) = to {
        // Behind the cells and behind the words above them.
        let left = (from.values().map(|(x, ..)| *x).max().unwrap_or(0) + cell).max(MARGIN + 250) + 90;
        let into = runs(&mut canvas, other, left, top, cell, name);
        for (value, &(x, y, hue)) in &from {
            if let Some(&(to_x, to_y, _)) = into.get(value) {
                arrow(&mut canvas, hue, (x + cell, y + HEIGHT / 2), (to_x, to_y + HEIGHT / 2));
            }
        }
    }
    let (width, height) = (canvas.width + MARGIN, canvas.height + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>text{{font:13px ui-monospace,monospace;fill:#202020}}.t{{font-weight:bold;\
         font-size:15px}}.v,.m,.p{{text-anchor:middle}}.o,.p{{fill:#707070}}.o{{text-anchor:end;paint-order:stroke;stroke:#ffffff;stroke-width:5px}}\
         .g{{fill:#ffffff}}.c{{stroke:#ffffff}}path{{fill:none;stroke-width:1.2;opacity:.8}}\
         @media (prefers-color-scheme:dark){{.g{{fill:#161923}}.c{{stroke:#161923}}.t,.m{{fill:#e4e4e4}}.o{{fill:#a8a8a8;stroke:#161923}}}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" class=\"g\"/>\n{}{}</svg>\n",
        title.replace('&', "&amp;").replace('<', "&lt;"),
        canvas.under,
        canvas.body
    )
}

/// Room that a title takes.
fn canvas_width(title: &str) -> i64 {
    MARGIN + title.chars().count() as i64 * 9
}

fn planes(canvas: &mut Canvas, figure: &Figure, cell: i64) {
    let (mut x, mut y) = (MARGIN, canvas.height);
    let mut line = 0;
    for plane in &figure.planes {
        let columns = plane.rows.first().map_or(0, Vec::len) as i64;
        let width =
            if plane.label.is_empty() { 24 } else { (columns * cell).max(plane.label.len() as i64 * 8) };
        if x > MARGIN && x + width > WIDTH {
            x = MARGIN;
            y += line + 16;
            line = 0;
        }
        if plane.label.is_empty() {
            canvas.text(x + 12, y + 40, "m", "…");
        } else {
            canvas.text(x, y + 12, "o\" style=\"text-anchor:start", &plane.label);
        }
        for (row, cells) in plane.rows.iter().enumerate() {
            for (column, &each) in cells.iter().enumerate() {
                canvas.cell(x + column as i64 * cell, y + 18 + row as i64 * HEIGHT, cell, each);
            }
        }
        line = line.max(18 + plane.rows.len() as i64 * HEIGHT);
        x += width + 14;
    }
    canvas.grow(0, y + line);
}

fn runs(canvas: &mut Canvas, figure: &Figure, left: i64, top: i64, cell: i64, title: &str) -> Places {
    canvas.text(left, top + 12, "o\" style=\"text-anchor:start", title);
    canvas.grow(left + title.chars().count() as i64 * 8, top + 18);
    let mut places = Places::new();
    let offsets =
        figure.runs.iter().filter_map(|run| run.offset.map(|offset| offset.to_string().len() as i64));
    let label = offsets.max().unwrap_or(1) * 8 + 8;
    for (line, run) in figure.runs.iter().enumerate() {
        let y = top + 20 + line as i64 * (HEIGHT + 3);
        if let Some(offset) = run.offset {
            canvas.text(left + label - 6, y + 15, "o", &offset.to_string());
        }
        for (column, &each) in run.cells.iter().enumerate() {
            let x = left + label + column as i64 * cell;
            canvas.cell(x, y, cell, each);
            if let Cell::Element { value, hue } = each {
                places.entry(value).or_insert((x, y, hue));
            }
        }
        canvas.grow(0, y + HEIGHT);
    }
    places
}

/// An arrow whose line passes under the cells, and whose head stands on the border of the one that
/// it leads to.
fn arrow(canvas: &mut Canvas, hue: i64, (x, y): (i64, i64), (to_x, to_y): (i64, i64)) {
    let (middle, colour) = ((x + to_x) / 2, line_colour(hue));
    let _ = writeln!(
        canvas.under,
        "<path d=\"M{x},{y} C{middle},{y} {middle},{to_y} {to_x},{to_y}\" stroke=\"{colour}\"/>"
    );
    let (back, above, below) = (to_x - 5, to_y - 3, to_y + 3);
    let _ = writeln!(
        canvas.body,
        "<polygon points=\"{back},{above} {to_x},{to_y} {back},{below}\" fill=\"{colour}\"/>"
    );
}
