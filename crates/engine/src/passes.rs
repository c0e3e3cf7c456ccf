// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passes of a check and of its repair, as a table: a format lists them in one order, once.
//!
//! A check goes through the table from its first row to its last and calls what checks; a repair goes through the same table and
//! calls what repairs. A row that another one needs stands before it.

/// Whether a repair goes on after a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// With the next pass.
    GoesOn,
    /// Something that has to be done in full could not be done: nothing may be written.
    Stops,
}

/// One pass. `C` and `R` are the function pointers of the format, over what its checks and its repairs work on.
#[derive(Clone, Copy, Debug)]
pub struct Pass<C, R> {
    /// What it is about; unique in its table.
    pub name: &'static str,
    /// The passes whose outcome it uses.
    pub needs: &'static [&'static str],
    /// Its check; `None` where the scan, or opening the file system, has seen all there is.
    pub check: Option<C>,
    /// Its repair; `None` where the edits of the check are all there is.
    pub repair: Option<R>,
}

/// What is wrong with the order of a table: a name that stands twice, or a row before what it needs. For the tests of a format.
pub fn disorder<C, R>(passes: &[Pass<C, R>]) -> Option<String> {
    for (at, pass) in passes.iter().enumerate() {
        let before = || passes.iter().take(at);
        if before().any(|other| other.name == pass.name) {
            return Some(format!("{} stands twice", pass.name));
        }
        if let Some(missing) = pass.needs.iter().find(|name| before().all(|other| other.name != **name)) {
            return Some(format!("{} needs {missing}, which does not come before it", pass.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(name: &'static str, needs: &'static [&'static str]) -> Pass<fn(), fn()> {
        Pass { name, needs, check: None, repair: None }
    }

    #[test]
    fn a_table_out_of_order_is_noticed() {
        assert_eq!(disorder(&[pass("a", &[]), pass("b", &["a"])]), None);
        assert!(disorder(&[pass("b", &["a"]), pass("a", &[])]).is_some());
        assert!(disorder(&[pass("a", &[]), pass("a", &[])]).is_some());
    }
}
