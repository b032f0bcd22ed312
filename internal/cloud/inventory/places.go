package inventory

import (
	"sync"
	"time"
)

const (
	// accountsAtOnce bounds the accounts that are observed at the same time. It is high because one
	// whose endpoint is slow takes its place for as long as a reading may take, while it costs next
	// to nothing.
	accountsAtOnce = 128
	// namespaceAtOnce is how many of them may be of one namespace: slow endpoints of one namespace
	// delay no other one.
	namespaceAtOnce = accountsAtOnce / 4
	// placeWait is after how long an account for which there was no place asks again.
	placeWait = time.Second
)

// places counts the accounts that are being observed, by namespace. It is safe for concurrent use.
type places struct {
	// most is how many one namespace may have.
	most int

	mu    sync.Mutex
	taken map[string]int
}

// take takes a place for an account of a namespace, if there is one. The function that it returns
// gives it back.
func (p *places) take(namespace string) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[namespace] >= p.most {
		return nil, false
	}
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	p.taken[namespace]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[namespace]--; p.taken[namespace] == 0 {
			delete(p.taken, namespace)
		}
	}, true
}
