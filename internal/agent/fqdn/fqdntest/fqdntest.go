// Package fqdntest makes answers of resolvers, for tests of what learns from them.
//
// It owns the form of an answer, and keeps nothing: it may be used from several goroutines.
package fqdntest

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Record is a line of an answer: an address of a name, or the name that another one is an alias of.
type Record struct{ Name, Value string }

// Message builds an answer to a question.
func Message(t testing.TB, id uint16, question string, ttl uint32, records ...Record) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, Response: true})
	name := func(s string) dnsmessage.Name { return dnsmessage.MustNewName(s + ".") }
	errs := []error{b.StartQuestions(), b.Question(dnsmessage.Question{Name: name(question), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}), b.StartAnswers()}
	for _, r := range records {
		h := dnsmessage.ResourceHeader{Name: name(r.Name), Class: dnsmessage.ClassINET, TTL: ttl}
		switch a, err := netip.ParseAddr(r.Value); {
		case err != nil:
			errs = append(errs, b.CNAMEResource(h, dnsmessage.CNAMEResource{CNAME: name(r.Value)}))
		case a.Is4():
			errs = append(errs, b.AResource(h, dnsmessage.AResource{A: a.As4()}))
		default:
			errs = append(errs, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	out, err := b.Finish()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	return out
}
