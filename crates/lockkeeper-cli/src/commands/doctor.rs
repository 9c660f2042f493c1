//! `lockkeeper doctor`.

use std::io;

use lockkeeper::Error;
use lockkeeper::redis::{Diagnosis, Severity, diagnose};

use super::exit_for_output;
use super::server::{ask, nodes, resolve};
use crate::arguments::{DoctorArguments, Server};
use crate::exit::Exit;
use crate::output::{DiagnosisReport, FindingReport, Paint, RowReport, write_diagnoses};

pub(super) fn doctor(arguments: &DoctorArguments) -> Exit {
    let server = match resolve(&arguments.server) {
        Ok(server) => server,
        Err(exit) => return exit,
    };
    let diagnoses = match ask(look(&server, &arguments.name)) {
        Ok(diagnoses) => diagnoses,
        Err(exit) => return exit,
    };
    let reports: Vec<_> = diagnoses.iter().map(report).collect();
    let out = &mut io::stdout().lock();
    match exit_for_output(write_diagnoses(out, &reports, arguments.json, Paint::for_output())) {
        Exit::Success => verdict(&diagnoses),
        failed => failed,
    }
}

async fn look(server: &Server, name: &str) -> Result<Vec<Diagnosis>, Error> {
    let mut diagnoses = Vec::new();
    for node in nodes(server)? {
        diagnoses.push(diagnose(node, name).await?);
    }
    Ok(diagnoses)
}

fn verdict(diagnoses: &[Diagnosis]) -> Exit {
    match diagnoses.iter().filter_map(Diagnosis::worst).max() {
        Some(Severity::Serious) => Exit::Broken,
        Some(Severity::Warning) => Exit::Weakened,
        _ => Exit::Success,
    }
}

fn report(diagnosis: &Diagnosis) -> DiagnosisReport {
    let row = diagnosis.row.map(|row| RowReport {
        id: row.id.to_owned(),
        deployment: row.deployment.to_owned(),
        promise: row.promise.to_owned(),
        breaks: row.breaks.to_owned(),
    });
    let findings = diagnosis.findings.iter().map(|finding| FindingReport {
        id: finding.id.to_owned(),
        severity: finding.severity.as_str().to_owned(),
        found: finding.found.clone(),
        why: finding.why.to_owned(),
        remedy: finding.remedy.to_owned(),
    });
    DiagnosisReport {
        server: diagnosis.server.clone(),
        version: diagnosis.version.clone(),
        row,
        findings: findings.collect(),
    }
}
