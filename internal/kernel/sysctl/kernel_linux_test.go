package sysctl

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/podway/podway/internal/kernel/netns"
)

func TestASettingIsWrittenInItsNamespaceOnly(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	const key = "net/ipv4/conf/lo/rp_filter"
	outside, err := Open(nil).Get(key)
	if err != nil {
		t.Fatal(err)
	}
	k, f := Open(ns), &Fake{Values: map[string]string{key: "0"}}
	for _, d := range []Door{k, f} {
		if err := d.Set(key, "2"); err != nil {
			t.Fatal(err)
		}
		if v, err := d.Get(key); err != nil || v != "2" {
			t.Fatalf("got %q, %v", v, err)
		}
		if _, err := d.Get("net/ipv4/no_such"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("got %v", err)
		}
		if err := d.Set("net/../../etc/no_such", "1"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("got %v", err)
		}
	}
	if v, _ := Open(nil).Get(key); v != outside {
		t.Fatalf("outside it became %q", v)
	}
}

func TestAValueThatIsAlreadyThereIsNotWritten(t *testing.T) {
	f := &Fake{Values: map[string]string{"a": "1"}, ReadOnly: true}
	if err := f.Set("a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := f.Set("a", "0"); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("got %v", err)
	}
}
