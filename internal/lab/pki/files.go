package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// ServiceAccountKeys makes the key pair sa.key, sa.pub that signs and checks service account tokens, unless it is there.
func (a *Authority) ServiceAccountKeys() error {
	if exists(a.path("sa.key")) && exists(a.path("sa.pub")) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("pki: service account keys: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("pki: service account keys: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("pki: service account keys: %w", err)
	}
	if err := replace(a.path("sa.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})); err != nil {
		return fmt.Errorf("pki: service account keys: %w", err)
	}
	if err := replace(a.path("sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})); err != nil {
		return fmt.Errorf("pki: service account keys: %w", err)
	}
	return nil
}

func writePair(dir, file string, cert []byte, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("pki: write %s: %w", file, err)
	}
	if err := replace(filepath.Join(dir, file+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return fmt.Errorf("pki: write %s: %w", file, err)
	}
	if err := replace(filepath.Join(dir, file+".crt"), cert); err != nil {
		return fmt.Errorf("pki: write %s: %w", file, err)
	}
	return nil
}

// replace writes the whole file or nothing: an `up` that is killed here must not leave half a key for the next one.
func replace(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func kubeconfig(server string, ca, cert, key []byte) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: podway-lab
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: podway-lab
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: podway-lab
  context:
    cluster: podway-lab
    user: podway-lab
current-context: podway-lab
`, server, b64(ca), b64(cert), b64(key))
}
