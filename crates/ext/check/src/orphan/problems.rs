//! Catalogue rows of `orphan`.

use fsmend_engine::problem_rows;

problem_rows! {}
