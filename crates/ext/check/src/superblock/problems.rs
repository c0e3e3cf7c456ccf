//! Catalogue rows of `superblock`.

use fsmend_engine::problem_rows;

problem_rows! {}
