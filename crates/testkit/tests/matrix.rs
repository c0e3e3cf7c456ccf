//! Sound images with every feature: e2fsck calls each sound, and so must we, with nothing to report at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, Recipe, build, matrix};
use fsmend_testkit::{fsmend, oracle};

/// `FSMEND_MATRIX=word` restricts the run to recipes with that word in their name.
fn wanted() -> Vec<Recipe> {
    let word = std::env::var("FSMEND_MATRIX").unwrap_or_default();
    matrix::all().into_iter().filter(|recipe| recipe.name.contains(&word)).collect()
}

#[test]
fn sound_images_are_called_sound() {
    let recipes = wanted();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(recipe) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = judge(recipe) {
                        failures.lock().unwrap().push(format!("{}: {failure}", recipe.name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} images:\n{}", failures.len(), recipes.len(), failures.join("\n"));
}

fn judge(recipe: &Recipe) -> Result<(), String> {
    let image = match build(recipe) {
        Ok(Built::Image(image)) => image,
        Ok(Built::Skipped(reason)) => {
            skip(&format!("matrix image {}", recipe.name), &reason);
            return Ok(());
        }
        Err(error) => return Err(format!("cannot be made: {error}")),
    };
    let (verdict, said) =
        oracle::e2fsck(&image, Duration::from_secs(60)).map_err(|error| error.to_string())?;
    if verdict != oracle::Verdict::Sound {
        return Err(format!("e2fsck says {verdict:?}: {said}"));
    }
    judge_by_fsmend(&image)
}

fn judge_by_fsmend(image: &Path) -> Result<(), String> {
    let report = fsmend::check(image, &["--all"]).map_err(|error| error.to_string())?;
    if report.code() == Some(0) && report.json.is_some() && report.codes().is_empty() {
        return Ok(());
    }
    Err(report.summary())
}
