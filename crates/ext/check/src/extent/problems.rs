//! Catalogue rows of `extent`.

use fsmend_engine::problem_rows;

problem_rows! {}
