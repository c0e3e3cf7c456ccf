// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of numbers as they are on command lines: `3,77,1500-1503`.

/// More numbers than this are no list of shards.
const COUNT_MAX: usize = 10_000_000;

/// Reads a list.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for piece in text.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let wrong = || format!("expected numbers such as 3,77,1500-1503, not {piece:?}");
        let first: usize = first.trim().parse().map_err(|_| wrong())?;
        let last: usize = last.trim().parse().map_err(|_| wrong())?;
        if last < first || last - first >= COUNT_MAX - numbers.len() {
            return Err(wrong());
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

/// Writes a list whose numbers ascend.
pub fn written(numbers: &[usize]) -> String {
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match pieces.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => pieces.push((*number, *number)),
        }
    }
    let piece = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    pieces.iter().map(piece).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back() {
        for (text, numbers) in [("3", vec![3]), ("0-2,7,9-10", vec![0, 1, 2, 7, 9, 10])] {
            assert_eq!(parse(text), Ok(numbers.clone()));
            assert_eq!(written(&numbers), text);
        }
        for wrong in ["", "a", "3-1", "1,,2", "0-99999999999", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
