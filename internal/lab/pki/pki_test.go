package pki_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podway/podway/internal/lab/pki"
	"github.com/podway/podway/internal/lab/spec"
)

func certificate(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	b, _ := pem.Decode(data)
	if b == nil {
		t.Fatal("no PEM")
	}
	c, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryIdentityIsSignedAndNamedAsKubernetesWants(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Nodes: 2, Port: 16443}
	if err := pki.Ensure(c); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, read(t, c.PKI("ca.crt"))))
	for file, want := range map[string]struct {
		name, org string
		hosts     []string
	}{
		pki.APIServer:         {"kube-apiserver", "", []string{"127.0.0.1", "10.90.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc.cluster.local"}},
		pki.Admin:             {"podway-lab-admin", "system:masters", nil},
		pki.KubeletClient:     {"kube-apiserver-kubelet-client", "system:masters", nil},
		pki.ControllerManager: {"system:kube-controller-manager", "", nil},
		pki.Scheduler:         {"system:kube-scheduler", "", nil},
		"node-2":              {"system:node:node-2", "system:nodes", []string{"node-2", "10.90.0.12"}},
	} {
		cert := certificate(t, read(t, c.PKI(file+".crt")))
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if cert.Subject.CommonName != want.name {
			t.Errorf("%s is named %q, want %q", file, cert.Subject.CommonName, want.name)
		}
		if want.org != "" && !slices.Equal(cert.Subject.Organization, []string{want.org}) {
			t.Errorf("%s is of %q, want %q", file, cert.Subject.Organization, want.org)
		}
		for _, h := range want.hosts {
			if err := cert.VerifyHostname(h); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestKeysAreForTheOwnerAlone(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Nodes: 1, Port: 16443}
	if err := pki.Ensure(c); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(c.PKI("*"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f, st.Mode())
		}
	}
}

func TestASecondStartKeepsWhatIsThereAndAddsWhatIsMissing(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Nodes: 1, Port: 16443}
	if err := pki.Ensure(c); err != nil {
		t.Fatal(err)
	}
	ca, node := read(t, c.PKI("ca.crt")), read(t, c.PKI("node-1.crt"))
	if err := os.Remove(c.PKI(pki.Scheduler + ".key")); err != nil {
		t.Fatal(err)
	}
	c.Nodes = 2
	if err := pki.Ensure(c); err != nil {
		t.Fatal(err)
	}
	if string(read(t, c.PKI("ca.crt"))) != string(ca) || string(read(t, c.PKI("node-1.crt"))) != string(node) {
		t.Error("a certificate that was there was made anew")
	}
	authority := certificate(t, ca)
	for _, f := range []string{"node-2", pki.Scheduler} {
		if err := certificate(t, read(t, c.PKI(f+".crt"))).CheckSignatureFrom(authority); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestTheHostsKubeconfigNeedsNoOtherFile(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Nodes: 1, Port: 17000}
	if err := pki.Ensure(c); err != nil {
		t.Fatal(err)
	}
	if err := pki.HostKubeconfig(c); err != nil {
		t.Fatal(err)
	}
	var k struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     string `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Cert string `json:"client-certificate-data"`
				Key  string `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(read(t, c.Kubeconfig()), &k); err != nil {
		t.Fatal(err)
	}
	if len(k.Clusters) != 1 || k.Clusters[0].Cluster.Server != "https://127.0.0.1:17000" {
		t.Errorf("clusters: %+v", k.Clusters)
	}
	for what, pair := range map[string][2]string{
		"authority":   {k.Clusters[0].Cluster.CA, "ca.crt"},
		"certificate": {k.Users[0].User.Cert, "admin.crt"},
		"key":         {k.Users[0].User.Key, "admin.key"},
	} {
		got, err := base64.StdEncoding.DecodeString(pair[0])
		if err != nil || string(got) != string(read(t, c.PKI(pair[1]))) {
			t.Errorf("%s is not that of %s: %v", what, pair[1], err)
		}
	}
}

func TestABrokenAuthorityIsNamed(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Nodes: 1}
	if err := pki.Ensure(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.PKI("ca.crt"), []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pki.Ensure(c); err == nil {
		t.Error("a broken ca.crt is taken for good")
	}
}
