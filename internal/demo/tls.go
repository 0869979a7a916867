package demo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificate is a PEM certificate with its key.
type certificate struct{ cert, key []byte }

// selfSigned makes a certificate for the hosts, good for a day.
func selfSigned(hosts ...string) (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("demo: make key: %w", err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return certificate{}, fmt.Errorf("demo: make certificate: %w", err)
	}
	kd, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, fmt.Errorf("demo: make key: %w", err)
	}
	return certificate{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kd})}, nil
}

// secret is the Secret of the demo's Ingress, as a YAML document.
func (c certificate) secret() []byte {
	enc := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: shop-tls, namespace: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n",
		namespace, enc(c.cert), enc(c.key))
}
