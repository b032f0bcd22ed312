package fqdn

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// chain is an answer about the first of n+1 names, each an alias of the next, the last of which has
// the address. Records come in the worst order: the last alias first.
func chain(t testing.TB, n int) []byte {
	t.Helper()
	name := func(i int) dnsmessage.Name { return dnsmessage.MustNewName(fmt.Sprintf("n%d.example.", i)) }
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{Response: true})
	b.EnableCompression()
	errs := []error{b.StartQuestions(), b.Question(dnsmessage.Question{Name: name(0), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}), b.StartAnswers()}
	header := func(i int) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: name(i), Class: dnsmessage.ClassINET, TTL: uint32(1000 - i%900)}
	}
	errs = append(errs, b.AResource(header(n), dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}))
	for i := n - 1; i >= 0; i-- {
		errs = append(errs, b.CNAMEResource(header(i), dnsmessage.CNAMEResource{CNAME: name(i + 1)}))
	}
	out, err := b.Finish()
	for _, e := range append(errs, err) {
		if e != nil {
			t.Fatal(e)
		}
	}
	return out
}

// TestManyAliases: aliases in any order are followed, so many of them, and an answer of thousands
// is read once.
func TestManyAliases(t *testing.T) {
	for n, want := range map[int]int{0: 1, 1: 1, mostAliases: 1, mostAliases + 1: 0, 1500: 0} {
		name, found := parseAnswer(chain(t, n))
		if name != "n0.example" || len(found) != want {
			t.Errorf("%d aliases: %q has %v", n, name, found)
		}
		if ttl := found[netip.MustParseAddr("192.0.2.1")]; want > 0 && ttl != time.Duration(1000-n)*time.Second {
			t.Errorf("%d aliases: the address counts for %s", n, ttl)
		}
	}
	cost := func(n int) float64 {
		raw := chain(t, n)
		return testing.AllocsPerRun(5, func() { parseAnswer(raw) })
	}
	if few, many := cost(150), cost(1500); many > 12*few {
		t.Errorf("150 aliases cost %.0f pieces of memory, 1500 %.0f", few, many)
	}
}

// TestAliasesInACircle: an answer that goes round in a circle ends.
func TestAliasesInACircle(t *testing.T) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{Response: true})
	a, c := dnsmessage.MustNewName("a.example."), dnsmessage.MustNewName("b.example.")
	errs := []error{b.StartQuestions(), b.Question(dnsmessage.Question{Name: a, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}), b.StartAnswers(),
		b.CNAMEResource(dnsmessage.ResourceHeader{Name: a, Class: dnsmessage.ClassINET}, dnsmessage.CNAMEResource{CNAME: c}),
		b.CNAMEResource(dnsmessage.ResourceHeader{Name: c, Class: dnsmessage.ClassINET}, dnsmessage.CNAMEResource{CNAME: a}),
		b.AResource(dnsmessage.ResourceHeader{Name: c, Class: dnsmessage.ClassINET, TTL: 5}, dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}})}
	raw, err := b.Finish()
	for _, e := range append(errs, err) {
		if e != nil {
			t.Fatal(e)
		}
	}
	if _, found := parseAnswer(raw); len(found) != 1 {
		t.Errorf("got %v", found)
	}
}
