//! Catalogue rows of `mmp`.

use fsmend_engine::problem_rows;

problem_rows! {}
