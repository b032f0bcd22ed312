package agent

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/proxy"
)

// InForce, Current, Forget and Patterns let tests stand in for an Agent.

func (n *Names) InForce(names []string, version uint64) { n.inForce(names, version) }

func (n *Names) Current() (*nft.Names, uint64) { return n.current() }

func (n *Names) Forget(connected func(netip.Addr) bool) { n.forget(connected) }

// NewAsking returns what lets those share an answer who ask by it at the same time.
func NewAsking(look func() error) (ask func(context.Context) error) {
	s := &asking{turn: make(chan struct{}, 1)}
	return func(ctx context.Context) error {
		_, err := s.ask(ctx, func(context.Context) (*moment, error) { return nil, look() })
		return err
	}
}

// Settled takes in what there is and returns it; nil while it is not known.
func (p *Pods) Settled() *nft.Node {
	p.settle()
	node, _ := p.current()
	return node
}

// Patterns are the names in force.
func (n *Names) Patterns() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for name := range n.patterns {
		out = append(out, name)
	}
	return out
}

// FrontendsOf says where a Service is reached, as ADDRESS/PROTOCOL/PORT.
func FrontendsOf(s *corev1.Service, node []netip.Addr) []string {
	var out []string
	for _, f := range frontendsOf(s, node) {
		out = append(out, fmt.Sprintf("%s/%d/%d", f.Address, f.Protocol, f.Port))
	}
	return out
}

// HoldDisk makes the disk of a Store hang until the returned function is called.
func HoldDisk(s *Store) (release func()) {
	s.appending <- struct{}{}
	return func() { <-s.appending }
}

// Refreshed takes in what there is now and returns it; nil while nothing is known.
func (p *Pods) Refreshed() *nft.Node {
	p.refresh()
	node, _ := p.current()
	return node
}

// MakesNetwork has the agent make the network of the Node.
func (p *Pods) MakesNetwork() { p.makes = true }

// Blind reports whether nothing is known of Pods that the Node may have.
func (p *Pods) Blind() bool { return p.blind() }

// Version is that of what is known.
func (p *Pods) Version() uint64 { _, v := p.current(); return v }

// Restore takes in what was kept.
func (p *Pods) Restore(k *Kept) { p.restore(k) }

// HostPorts are the ports of the Node that lead to Pods.
func (p *Pods) HostPorts() []proxy.HostPort {
	list, _ := p.hostPorts()
	return list
}

// Attach takes in what the runtime says of an attachment, as settled or not.
func (p *Pods) Attach(a cni.Attachment, settled bool) error {
	x, err := p.attach(a)
	if err == nil && settled {
		p.release(x)
	}
	return err
}

// Detach forgets an attachment.
func (p *Pods) Detach(a cni.Attachment) { p.detach(keyOf(&a), nil) }

// State says what is wrong.
func (p *Pods) State() string { return p.state() }
