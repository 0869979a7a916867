// Package pin names Kubernetes' end-to-end tests, so that go.mod knows the modules that building them takes. Nothing imports
// it.
package pin

import _ "k8s.io/kubernetes/test/e2e"
