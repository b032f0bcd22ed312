// Package fqdn knows the addresses of the domain names that policies name.
//
// It owns what the answers of resolvers said and for how long that counts, the questions that wait
// for answers, and the streams of TCP in which these come. It promises:
//
//   - An answer is believed that comes from a resolver and, by UDP, is to a question that was seen.
//     What an answer says of other names is not believed.
//   - An answer is held until its addresses are in force, for a second at most.
//   - Neither questions nor answers make it hold more than its bounds say.
//
// Names and ClusterResolvers may be used from several goroutines.
package fqdn

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/platform/errtext"
)

const (
	// nameShortest is how long an address of a name counts at least, and how much longer while
	// there is a connection with it.
	nameShortest = time.Minute
	// nameLongest bounds what resolvers say.
	nameLongest = 24 * time.Hour
	// nameMost bounds the addresses of one name or pattern.
	nameMost = 4096
	// nameAgain is how soon a name is asked for again that could not be looked up.
	nameAgain = 10 * time.Second
	// answerHeld is how long an answer of a resolver waits at most until its addresses are in
	// force, answersHeld how many wait.
	answerHeld  = time.Second
	answersHeld = 256
	// lookUpLimit bounds one look-up of a name.
	lookUpLimit = 5 * time.Second
	// mostAliases is how many aliases of a name are followed. Resolvers follow about as many.
	mostAliases = 16
)

// Address is an address of a name, or of one of those that a pattern matches.
type Address struct {
	Addr  netip.Addr `json:"addr"`
	Until time.Time  `json:"until"`
}

// Names knows the addresses of the domain names that policies name. It learns them from the answers
// of the host's resolvers, which it holds until the addresses are in force, and looks up names that
// are no patterns by itself. It may be used from several goroutines.
type Names struct {
	Options
	// news holds a token after something was learned or forgotten.
	news chan struct{}

	mu sync.Mutex
	// patterns are the names and patterns of the policies in force, with the addresses of each and
	// until when these count.
	patterns map[string]map[netip.Addr]time.Time
	// asked is when a name was looked up last.
	asked     map[string]time.Time
	resolvers []netip.Addr
	// version counts what was learned or forgotten, enforced is the last one in force.
	version, enforced uint64
	// waiting are the answers that are held, each until a version is in force.
	waiting []held
	// questions are those that wait for answers by UDP.
	questions questions
	stats     Status

	// gathering guards streams, the answers in several packets.
	gathering sync.Mutex
	streams   streams
}

// Options are what Names need.
type Options struct {
	// Resolvers returns the addresses whose answers are believed.
	Resolvers func() ([]netip.Addr, error)
	LookUp    func(ctx context.Context, host string) ([]netip.Addr, error)
	Clock     clock.WithTicker
}

// New returns Names that know nothing.
func New(o Options) *Names {
	return &Names{Options: o, news: make(chan struct{}, 1), patterns: map[string]map[netip.Addr]time.Time{}, asked: map[string]time.Time{}, questions: questions{}}
}

// News holds a token after something was learned or forgotten.
func (n *Names) News() <-chan struct{} { return n.news }

func (n *Names) wake() {
	select {
	case n.news <- struct{}{}:
	default:
	}
}

type held struct {
	version uint64
	release func()
}

// Status counts.
type Status struct {
	Names     int `json:"names"`
	Addresses int `json:"addresses"`
	// Refused counts addresses that were too many for their name.
	Refused int `json:"refused"`
	// Error is why resolvers are not known, or names cannot be looked up; Unheard why answers
	// cannot be received.
	Error   string `json:"error,omitempty"`
	Unheard string `json:"unheard,omitempty"`
}

// Answer takes in what a packet of a resolver carries, and lets the packet go once what it says is
// in force. Of an answer in several packets of TCP that is the one with which it is whole. An
// answer by UDP is believed if it is to a question that was seen: anybody can send a packet with
// the address of a resolver.
func (n *Names) Answer(p kernel.Queued, release func()) {
	if !n.believes(&p) {
		release()
		return
	}
	messages := [][]byte{p.Payload}
	if p.Protocol == ruleset.TCP {
		n.gathering.Lock()
		messages = n.streams.messages(p, n.Clock.Now())
		n.gathering.Unlock()
	}
	// Nobody waits while messages are read.
	var all []heard
	for _, m := range messages {
		if name, found := parseAnswer(m); name != "" {
			all = append(all, heard{name, found})
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// It may be a segment sent again, because the same one is held.
	wait := p.Protocol == ruleset.TCP && len(p.Payload) > 0 && n.enforced != n.version
	for _, h := range all {
		wait = n.learn(h.name, h.found) || n.enforced != n.version || wait
	}
	if !wait || len(n.waiting) >= answersHeld {
		release()
		return
	}
	n.waiting = append(n.waiting, held{n.version, release})
	limit := n.Clock.NewTimer(answerHeld)
	go func() {
		<-limit.C()
		release()
	}()
	n.wake()
}

// heard is what an answer says.
type heard struct {
	name  string
	found map[netip.Addr]time.Duration
}

// believes reports whether what a packet says is believed. A question is noted instead.
func (n *Names) believes(p *kernel.Queued) bool {
	var asked inquiry
	var answer, ok bool
	if p.Protocol == ruleset.UDP {
		asked, answer, ok = questionOf(p.Payload)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.Protocol == ruleset.UDP {
		asked.from, asked.resolver = p.Destination, p.Source.Addr()
		switch {
		case ok && !answer && slices.Contains(n.resolvers, p.Destination.Addr()):
			asked.from, asked.resolver = p.Source, p.Destination.Addr()
			n.questions.add(asked, n.Clock.Now())
			return false
		case !ok, !answer, !n.questions.has(asked, n.Clock.Now()):
			return false
		}
	}
	return slices.Contains(n.resolvers, p.Source.Addr())
}

// learn notes the addresses of a name, and reports whether some are new. It needs mu.
func (n *Names) learn(name string, found map[netip.Addr]time.Duration) bool {
	now, news := n.Clock.Now(), false
	for pattern, known := range n.patterns {
		if !matchesName(pattern, name) {
			continue
		}
		for a, ttl := range found {
			until, there := known[a]
			if !there && len(known) >= nameMost {
				n.stats.Refused++
				continue
			}
			if next := now.Add(min(max(ttl, nameShortest), nameLongest)); next.After(until) {
				known[a] = next
			}
			news = news || !there
		}
	}
	if news {
		n.version++
	}
	return news
}

// Current returns what is known, and its version.
func (n *Names) Current() (*nft.Names, uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := &nft.Names{Addresses: map[string][]netip.Addr{}, Resolvers: slices.Clone(n.resolvers)}
	for pattern, known := range n.patterns {
		for a := range known {
			out.Addresses[pattern] = append(out.Addresses[pattern], a)
		}
		slices.SortFunc(out.Addresses[pattern], netip.Addr.Compare)
	}
	return out, n.version
}

// InForce notes which names rules name, and that a version is in force. It reports whether there
// are names that nothing was known of.
func (n *Names) InForce(names []string, version uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		if n.patterns[name] == nil {
			n.patterns[name] = map[netip.Addr]time.Time{}
		}
	}
	for name := range n.patterns {
		if !slices.Contains(names, name) {
			delete(n.patterns, name)
			delete(n.asked, name)
		}
	}
	n.enforced = version
	n.waiting = slices.DeleteFunc(n.waiting, func(h held) bool {
		if h.version <= version {
			h.release()
		}
		return h.version <= version
	})
}

// Restore takes in what was known before a restart, without saying for how long that counts: what
// is not heard of again goes.
func (n *Names) Restore(kept map[string][]Address) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.patterns, n.asked = map[string]map[netip.Addr]time.Time{}, map[string]time.Time{}
	until := n.Clock.Now().Add(nameShortest)
	for name, list := range kept {
		n.patterns[name] = map[netip.Addr]time.Time{}
		for _, a := range list[:min(len(list), nameMost)] {
			n.patterns[name][a.Addr] = until
			if a.Until.After(until) && a.Until.Before(until.Add(nameLongest)) {
				n.patterns[name][a.Addr] = a.Until
			}
		}
	}
	n.version++
}

// Kept is what is to be known after a restart.
func (n *Names) Kept() map[string][]Address {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string][]Address{}
	for name, known := range n.patterns {
		for a, until := range known {
			out[name] = append(out[name], Address{a, until})
		}
		slices.SortFunc(out[name], func(a, b Address) int { return a.Addr.Compare(b.Addr) })
	}
	return out
}

// Expired returns the addresses that count no more unless there are connections with them.
func (n *Names) Expired() []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []netip.Addr
	now := n.Clock.Now()
	for _, known := range n.patterns {
		for a, until := range known {
			if !now.Before(until) {
				out = append(out, a)
			}
		}
	}
	return out
}

// Forget drops the addresses that count no more, but for those with connections.
func (n *Names) Forget(connected func(netip.Addr) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, gone := n.Clock.Now(), false
	for _, known := range n.patterns {
		for a, until := range known {
			switch {
			case now.Before(until):
			case connected(a):
				known[a] = now.Add(nameShortest)
			default:
				delete(known, a)
				gone = true
			}
		}
	}
	if gone {
		n.version++
		n.wake()
	}
}

// Run finds resolvers and looks up names until ctx ends.
func (n *Names) Run(ctx context.Context) {
	tick := n.Clock.NewTicker(time.Second)
	defer tick.Stop()
	for {
		n.findResolvers()
		for _, name := range n.due() {
			lookUp, cancel := context.WithTimeout(ctx, lookUpLimit)
			addrs, err := n.LookUp(lookUp, name)
			cancel()
			n.answered(name, addrs, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (n *Names) findResolvers() {
	found, err := n.Resolvers()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Error = errtext.Of(err)
	slices.SortFunc(found, netip.Addr.Compare)
	// While not all can be found, those that were found before count, or else some.
	if found = slices.Compact(found); (err == nil || len(n.resolvers) == 0) && !slices.Equal(found, n.resolvers) {
		n.resolvers = found
		n.version++
		n.wake()
	}
}

// due returns the names, which are no patterns, that are to be looked up: new ones, and names of
// which an address soon counts no more.
func (n *Names) due() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	now := n.Clock.Now()
	for name, known := range n.patterns {
		if strings.Contains(name, "*") || now.Sub(n.asked[name]) < nameAgain {
			continue
		}
		soon := len(known) == 0
		for _, until := range known {
			soon = soon || until.Sub(now) < nameShortest/2
		}
		if soon {
			n.asked[name] = now
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// answered takes in what a look-up said, which may have come from a cache that is no resolver to
// us.
func (n *Names) answered(name string, addrs []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.stats.Error = err.Error()
		return
	}
	found := map[netip.Addr]time.Duration{}
	for _, a := range addrs {
		found[a.Unmap().WithZone("")] = nameShortest
	}
	if n.learn(canonicalName(name), found) {
		n.wake()
	}
}

// Fail notes that answers cannot be received.
func (n *Names) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Unheard = errtext.Of(err)
}

// Status returns the counts.
func (n *Names) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.stats
	out.Names = len(n.patterns)
	for _, known := range n.patterns {
		out.Addresses += len(known)
	}
	return out
}

func canonicalName(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

// matchesName reports whether a pattern, in which "*" stands for any text, matches a name in
// canonical form.
func matchesName(pattern, name string) bool {
	parts := strings.Split(canonicalName(pattern), "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return first == name
	}
	rest, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, p)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, last)
}

var errNoAnswer = errors.New("no answer to one question")

// parseAnswer returns the name that an answer is about and its addresses, through aliases, each
// with how long it counts. What an answer says of other names is not believed. The name is empty if
// it is no answer.
func parseAnswer(b []byte) (string, map[netip.Addr]time.Duration) {
	name, found, err := answerOf(b)
	if err != nil {
		return "", nil
	}
	return name, found
}

func answerOf(b []byte) (string, map[netip.Addr]time.Duration, error) {
	var p dnsmessage.Parser
	header, err := p.Start(b)
	if err != nil {
		return "", nil, err
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 || !header.Response || header.RCode != dnsmessage.RCodeSuccess {
		return "", nil, errors.Join(errNoAnswer, err)
	}
	name := canonicalName(questions[0].Name.String())
	r, err := recordsOf(&p)
	if err != nil {
		return "", nil, err
	}
	// Aliases come in any order.
	found := map[netip.Addr]time.Duration{}
	next := []alias{{name, 1<<32 - 1}}
	seen := map[string]bool{name: true}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for _, a := range r.addresses[at.name] {
			found[a.addr] = max(found[a.addr], time.Duration(min(at.ttl, a.ttl))*time.Second)
		}
		for _, to := range r.aliases[at.name] {
			if !seen[to.name] && len(seen) <= mostAliases {
				seen[to.name] = true
				next = append(next, alias{to.name, min(at.ttl, to.ttl)})
			}
		}
	}
	return name, found, nil
}

// records are the aliases and addresses of an answer by the names that they are about.
type records struct {
	aliases   map[string][]alias
	addresses map[string][]address
}

// alias is a name that another one stands for, and address one that a name has, each with the
// seconds for which that counts.
type alias struct {
	name string
	ttl  uint32
}

type address struct {
	addr netip.Addr
	ttl  uint32
}

// recordsOf reads the answers of a message, once.
func recordsOf(p *dnsmessage.Parser) (records, error) {
	r := records{map[string][]alias{}, map[string][]address{}}
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		of := canonicalName(h.Name.String())
		switch h.Type {
		case dnsmessage.TypeCNAME:
			to, err := p.CNAMEResource()
			if err != nil {
				return r, err
			}
			r.aliases[of] = append(r.aliases[of], alias{canonicalName(to.CNAME.String()), h.TTL})
		case dnsmessage.TypeA:
			a, err := p.AResource()
			if err != nil {
				return r, err
			}
			r.addresses[of] = append(r.addresses[of], address{netip.AddrFrom4(a.A), h.TTL})
		case dnsmessage.TypeAAAA:
			a, err := p.AAAAResource()
			if err != nil {
				return r, err
			}
			r.addresses[of] = append(r.addresses[of], address{netip.AddrFrom16(a.AAAA).Unmap(), h.TTL})
		default:
			if err := p.SkipAnswer(); err != nil {
				return r, err
			}
		}
	}
}
