//! Tables on narrow screens: each cell gets the head of its column, which `docs/site.css` shows
//! where a row has no room.

/// Tables with fewer columns stay tables on a telephone.
const COLUMNS: usize = 3;

/// The page with the heads of columns at the cells of its wide tables.
pub fn labelled(page: &str) -> String {
    let mut text = String::new();
    let mut pieces = page.split("<table>");
    text += pieces.next().unwrap_or_default();
    for piece in pieces {
        let (table, behind) = piece.split_once("</table>").unwrap_or((piece, ""));
        let heads: Vec<String> = table.split("<th>").skip(1).map(head).collect();
        if heads.len() < COLUMNS {
            text += "<table>";
            text += table;
        } else {
            text += "<table class=\"wide\">";
            for (at, row) in table.split("<tr>").enumerate() {
                text += if at > 0 { "<tr>" } else { "" };
                text += &cells(row, &heads);
            }
        }
        text += "</table>";
        text += behind;
    }
    text
}

/// The words of a head, which a value of an attribute may be.
fn head(cell: &str) -> String {
    let inside = cell.split("</th>").next().unwrap_or_default();
    let words = inside.split('<').enumerate().map(|(at, piece)| match at {
        0 => piece,
        _ => piece.split_once('>').map_or("", |(_, words)| words),
    });
    words.collect::<String>().replace('"', "&quot;")
}

/// A row with the heads at its cells.
fn cells(row: &str, heads: &[String]) -> String {
    let mut pieces = row.split("<td>");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for (at, piece) in pieces.enumerate() {
        match heads.get(at).filter(|head| !head.is_empty()) {
            Some(head) => text += &format!("<td data-label=\"{head}\">{piece}"),
            None => text = text + "<td>" + piece,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::labelled;

    #[test]
    fn cells_of_wide_tables_have_the_head_of_their_column() {
        let page = "<p>a</p><table><thead><tr><th></th><th>b <code>c</code></th><th>\"d\"</th><th>e</th></tr></thead>\
                    <tbody><tr><td>1</td><td>2</td><td>3</td><td>4</td></tr></tbody></table><p>";
        let wanted = "<p>a</p><table class=\"wide\"><thead><tr><th></th><th>b <code>c</code></th><th>\"d\"</th><th>e</th></tr>\
                      </thead><tbody><tr><td>1</td><td data-label=\"b c\">2</td><td data-label=\"&quot;d&quot;\">3</td>\
                      <td data-label=\"e\">4</td></tr></tbody></table><p>";
        assert_eq!(labelled(page), wanted);
        let narrow = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>";
        assert_eq!(labelled(narrow), narrow);
    }
}
