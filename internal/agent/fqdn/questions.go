package fqdn

import (
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// questionsEach bounds the questions of one address that wait for answers, and questionsFrom
	// the addresses. Beyond that, the oldest question of the address is forgotten.
	questionsEach = 256
	questionsFrom = 1024
	// questionWaits is for how long an answer to a question is believed.
	questionWaits = 30 * time.Second
)

// inquiry is what a resolver was asked: an answer is believed that says the same.
type inquiry struct {
	from     netip.AddrPort
	resolver netip.Addr
	id       uint16
	name     string
	kind     dnsmessage.Type
}

// asked is a question, and when it was asked.
type asked struct {
	inquiry
	at time.Time
}

// questions are the questions that wait for answers, by the address that asked, the oldest first.
// It is not safe for concurrent use.
type questions map[netip.Addr][]asked

// add notes a question.
func (q questions) add(x inquiry, now time.Time) {
	who := x.from.Addr()
	if q[who] == nil && len(q) >= questionsFrom {
		q.expire(now)
		if len(q) >= questionsFrom {
			return
		}
	}
	list := q[who]
	for len(list) > 0 && (len(list) >= questionsEach || now.Sub(list[0].at) > questionWaits) {
		list = list[1:]
	}
	q[who] = append(list, asked{x, now})
}

// has reports whether a question was asked lately.
func (q questions) has(x inquiry, now time.Time) bool {
	for _, a := range q[x.from.Addr()] {
		if age := now.Sub(a.at); a.inquiry == x && age <= questionWaits {
			return true
		}
	}
	return false
}

// expire forgets addresses whose questions are all old.
func (q questions) expire(now time.Time) {
	for who, list := range q {
		if now.Sub(list[len(list)-1].at) > questionWaits {
			delete(q, who)
		}
	}
}

// questionOf reads the question in a message, without its client and resolver, and whether the
// message is an answer.
func questionOf(b []byte) (x inquiry, answer, ok bool) {
	var p dnsmessage.Parser
	header, err := p.Start(b)
	if err != nil {
		return x, false, false
	}
	first, err := p.Question()
	if err != nil {
		return x, false, false
	}
	x.id, x.name, x.kind = header.ID, canonicalName(first.Name.String()), first.Type
	return x, header.Response, true
}
