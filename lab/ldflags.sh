#!/bin/sh
# Prints the linker flags of podway-lab: stripped, and with the version of Kubernetes that go.mod pins (without it every
# component says v0.0.0-master, and clients refuse or warn).
set -eu
cd "$(dirname "$0")"
version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
minor=${version#v1.}
minor=${minor%%.*}
p=k8s.io/component-base/version
echo "-s -w -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=$minor -X $p.gitCommit=$version -X $p.gitTreeState=clean -X $p.buildDate=1970-01-01T00:00:00Z"
