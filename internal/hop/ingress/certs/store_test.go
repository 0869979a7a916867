package certs_test

import (
	"crypto/tls"
	"errors"
	"testing"

	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/hop/ingress/certs/certstest"
	"github.com/podway/podway/internal/model"
)

func parse(t *testing.T, name string, dns ...string) *certs.Cert {
	n := model.N("shop", name)
	return certs.Parse(n, certstest.Secret(t, n, dns...))
}

func TestASecretMustHoldACertificateAndItsKey(t *testing.T) {
	n := model.N("shop", "x")
	one, two := certstest.Secret(t, n, "a.example"), certstest.Secret(t, n, "a.example")
	for name, s := range map[string]*model.Secret{
		"no Secret":              nil,
		"empty":                  {Name: n},
		"no key":                 {Name: n, Cert: one.Cert},
		"the key of another":     {Name: n, Cert: one.Cert, Key: two.Key},
		"the key as certificate": {Name: n, Cert: one.Key, Key: one.Key},
	} {
		c := certs.Parse(n, s)
		if c.Err == nil || c.TLS != nil || len(c.Names()) != 0 || c.Covers("a.example") || !c.NotAfter().IsZero() || c.Leaf() != nil {
			t.Errorf("%s: %+v", name, c)
		}
		if (s == nil) != errors.Is(c.Err, certs.ErrMissing) {
			t.Errorf("%s: %v", name, c.Err)
		}
	}
	if c := certs.Parse(n, one); c.Err != nil || !c.Covers("A.example") || c.Covers("b.example") {
		t.Errorf("a good one: %+v", c)
	}
}

func TestTheLastGoodCertificateStays(t *testing.T) {
	s, err := certs.NewStore()
	if err != nil {
		t.Fatal(err)
	}
	good, wild, bad := parse(t, "good", "a.example"), parse(t, "wild", "*.example"), certs.Parse(model.N("shop", "bad"), nil)
	if c := s.For("a.example"); !s.IsSelfSigned(c) {
		t.Error("an empty store has another certificate than its own")
	}
	if s.Set("a.example", bad) || !s.IsSelfSigned(s.For("a.example")) {
		t.Error("a bad certificate was taken")
	}
	if !s.Set("a.example", good) || !s.Set(".example", wild) || s.Set("a.example", bad) {
		t.Error("Set says the wrong thing")
	}
	for name, want := range map[string]*certs.Cert{"a.example": good, "A.Example.": good, "b.example": wild} {
		if got := s.For(name); got != want {
			t.Errorf("%s: %v", name, got.Secret)
		}
	}
	if c, err := s.GetCertificate(&tls.ClientHelloInfo{ServerName: "b.example"}); err != nil || c != wild.TLS {
		t.Error("the handshake got another certificate")
	}
	s.SetDefault(good)
	s.SetDefault(bad)
	if s.For("") != good {
		t.Error("a bad default replaced the good one")
	}
	s.SetDefault(nil)
	s.Delete("a.example")
	if s.For("a.example") != wild || !s.IsSelfSigned(s.For("x.y.example")) {
		t.Error("a deleted host is still known")
	}
}
