package keyring

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// authority makes the material of an authority.
func authority(random io.Reader, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now, NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(random, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), err
}

// kinds are all kinds of keys there are.
var kinds = map[string]Kind{"random bytes": Random(32, "test"), "authorities": Authorities(authority), "keys that sign": Signing()}

// made is a list of n keys.
func made(t *testing.T, k Kind, n int) Ring {
	t.Helper()
	var r Ring
	for i := range n {
		next, err := k.Make(rand.Reader, begin.Add(time.Duration(i)*time.Hour))
		if err == nil {
			r, err = r.Rotated(next)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestRing: a list begins with the youngest key, is bounded, and never loses its current key.
func TestRing(t *testing.T) {
	for name, k := range kinds {
		r := made(t, k, MostKeys)
		if r.Current().ID != r[0].ID || !r[0].Since.After(r[1].Since) {
			t.Errorf("%s: %v", name, r)
		}
		next, err := k.Make(rand.Reader, begin)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Rotated(next); err == nil {
			t.Errorf("%s: %d keys", name, MostKeys+1)
		}
		if _, err := r[1:].Rotated(r[2]); err == nil {
			t.Errorf("%s: the same key twice", name)
		}
		if _, err := r.Without(r[0].ID); err == nil {
			t.Errorf("%s: without its current key", name)
		}
		if _, err := r.Without("none"); err == nil {
			t.Errorf("%s: without a key that it does not have", name)
		}
		before := r.IDs()
		less, err := r.Without(r[3].ID)
		if err != nil || len(less) != MostKeys-1 || !slices.Equal(r.IDs(), before) {
			t.Errorf("%s: %v, %v", name, less, err)
		}
		if _, err := less.Rotated(next); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRingIsRead: what was written is read, in a file and in a Secret; damage is an error that
// shows no key.
func TestRingIsRead(t *testing.T) {
	for name, k := range kinds {
		r := made(t, k, 3)
		same := func(what string, got Ring, err error) {
			t.Helper()
			if err != nil || fmt.Sprint(got) != fmt.Sprint(r) {
				t.Errorf("%s: %s: %v, %v", name, what, got, err)
				return
			}
			for i := range r {
				if !bytes.Equal(got[i].Material, r[i].Material) || !got[i].Since.Equal(r[i].Since) {
					t.Errorf("%s: %s: key %d is another one", name, what, i)
				}
			}
		}
		text, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Parse(text)
		same("a file", got, err)
		data := map[string][]byte{}
		if err := Write(data, r); err != nil {
			t.Fatal(err)
		}
		got, err = k.Read(data, r[0].Material)
		same("a Secret", got, err)
		for what, broken := range map[string][]byte{
			"cut": text[:len(text)-9], "no list": []byte("{}"), "empty": []byte("[]"), "nothing": nil,
			"another name": bytes.Replace(text, []byte(r[1].ID), []byte("0123456789abcdef"), 1),
			"twice":        bytes.Replace(text, []byte("["), append([]byte("["), append(text[1:len(text)-1], ',')...), 1),
		} {
			if _, err := k.Parse(broken); err == nil || strings.Contains(err.Error(), "PRIVATE") || bytes.Contains(text, []byte(err.Error())) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		// A current key that somebody has put there is alone.
		other := made(t, k, 1)
		if got, err := k.Read(data, other[0].Material); err != nil || len(got) != 1 || got[0].ID != other[0].ID {
			t.Errorf("%s: put there by hand: %v, %v", name, got, err)
		}
		if _, err := k.Read(data, []byte("short")); err == nil || strings.Contains(err.Error(), "short") {
			t.Errorf("%s: no key: %v", name, err)
		}
		data["former"] = []byte("x")
		if _, err := k.Read(data, r[0].Material); err == nil {
			t.Errorf("%s: damaged former keys are none", name)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", r, r, r, r[0]); strings.Contains(text, "PRIVATE") || strings.Contains(text, "Material") || strings.Contains(text, fmt.Sprint(r[0].Material)) {
			t.Errorf("%s: printed: %s", name, text)
		}
	}
}

// TestHalves: of a former key the public half is enough, and is called the same.
func TestHalves(t *testing.T) {
	for name, half := range map[string]func([]byte) ([]byte, error){"authorities": VerifyingOnly, "keys that sign": PublicOnly} {
		k := kinds[name]
		r := made(t, k, 2)
		for _, full := range r {
			public, err := half(full.Material)
			if err != nil || strings.Contains(string(public), "PRIVATE") {
				t.Fatal(name, err)
			}
			if id, err := k.ID(public); err != nil || id != full.ID {
				t.Errorf("%s: %s, want %s: %v", name, id, full.ID, err)
			}
		}
		if bundle, err := r.Bundle(half); err != nil || strings.Count(string(bundle), "BEGIN") != 2 {
			t.Errorf("%s: %s, %v", name, bundle, err)
		}
	}
	a, b := made(t, kinds["authorities"], 1)[0].Material, made(t, kinds["authorities"], 1)[0].Material
	cert, err := VerifyingOnly(a)
	if err != nil {
		t.Fatal(err)
	}
	_, key := pem.Decode(b)
	if _, err := ParseAuthority(append(cert, key...)); err == nil {
		t.Error("the key of another authority")
	}
}
