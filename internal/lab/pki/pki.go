// Package pki makes the certificates and kubeconfigs of a lab: one authority, and one certificate per identity, named
// as Kubernetes' RBAC and node authorizer want them. It owns the folder it is given and knows nothing of processes.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Identity is one certificate to make. Without a name for it there is no kubeconfig.
type Identity struct {
	File          string // base name of FILE.crt, FILE.key
	CommonName    string
	Organizations []string
	DNSNames      []string
	Addresses     []net.IP
	Kubeconfig    string // server URL; also write FILE.kubeconfig for it
}

const validity = 10 * 365 * 24 * time.Hour

// Authority signs the lab's certificates.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// Open reads the authority in dir, or makes it.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	a := &Authority{dir: dir}
	if exists(a.path("ca.crt")) && exists(a.path("ca.key")) {
		return a, a.load()
	}
	return a, a.make()
}

func (a *Authority) path(file string) string { return filepath.Join(a.dir, file) }

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func (a *Authority) load() error {
	var err error
	if a.pem, err = os.ReadFile(a.path("ca.crt")); err != nil {
		return fmt.Errorf("pki: read authority: %w", err)
	}
	keyPEM, err := os.ReadFile(a.path("ca.key"))
	if err != nil {
		return fmt.Errorf("pki: read authority: %w", err)
	}
	certBlock, _ := pem.Decode(a.pem)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return fmt.Errorf("pki: %s or ca.key is not PEM; delete %s to make a new authority", a.path("ca.crt"), a.dir)
	}
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return fmt.Errorf("pki: read authority: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return fmt.Errorf("pki: read authority: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return fmt.Errorf("pki: the authority's key cannot sign")
	}
	a.key = signer
	return nil
}

func (a *Authority) make() error {
	t := template("podway-lab-ca", nil)
	t.IsCA, t.BasicConstraintsValid, t.ExtKeyUsage = true, true, nil
	t.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("pki: make authority: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return fmt.Errorf("pki: make authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("pki: make authority: %w", err)
	}
	a.key, a.pem = key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return writePair(a.dir, "ca", a.pem, key)
}

func template(commonName string, organizations []string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // rand.Reader never fails
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName, Organization: organizations},
		NotBefore:    now.Add(-time.Hour), // a virtual machine's clock may step back after a resume
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

// Issue makes the identity's certificate and kubeconfig, unless they are there already.
func (a *Authority) Issue(id Identity) error {
	if exists(a.path(id.File+".crt")) && exists(a.path(id.File+".key")) && (id.Kubeconfig == "" || exists(a.path(id.File+".kubeconfig"))) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("pki: issue %s: %w", id.File, err)
	}
	t := template(id.CommonName, id.Organizations)
	t.DNSNames, t.IPAddresses = id.DNSNames, id.Addresses
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("pki: issue %s: %w", id.File, err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := writePair(a.dir, id.File, cert, key); err != nil {
		return err
	}
	if id.Kubeconfig == "" {
		return nil
	}
	return a.WriteKubeconfig(a.path(id.File+".kubeconfig"), id.File, id.Kubeconfig)
}

// WriteKubeconfig writes a kubeconfig with everything in it for the identity, for a server, to a path of its own.
func (a *Authority) WriteKubeconfig(path, identity, server string) error {
	cert, err := os.ReadFile(a.path(identity + ".crt"))
	if err != nil {
		return fmt.Errorf("pki: write kubeconfig: %w", err)
	}
	key, err := os.ReadFile(a.path(identity + ".key"))
	if err != nil {
		return fmt.Errorf("pki: write kubeconfig: %w", err)
	}
	if err := replace(path, kubeconfig(server, a.pem, cert, key)); err != nil {
		return fmt.Errorf("pki: write kubeconfig: %w", err)
	}
	return nil
}
