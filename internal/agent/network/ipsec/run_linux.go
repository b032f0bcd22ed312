package ipsec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/strongswan/govici/vici"

	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// lookInterval is how often it is looked whether packets to all Nodes are encrypted, and
	// talkAgain how soon a charon that is away is asked again.
	lookInterval, talkAgain = time.Second, 500 * time.Millisecond
	// calledAfter is for how long a Node waits to be called before it calls.
	calledAfter = 3 * time.Second
	// callsAtOnce bounds how many Nodes are called at the same time, and callAgain is how long
	// after a call that failed the next one comes.
	callsAtOnce, callAgain = 8, 2 * time.Second
	// askAgain and askLater are how long after the first and after later failures the controller is
	// asked again for a certificate.
	askAgain, askLater = 2 * time.Second, time.Minute
)

// call is how a call of another Node stands.
type call struct {
	running bool
	// since is when nothing was encrypted first, after the time when the last call ended.
	since, after time.Time
	// reason is why the last one failed.
	reason string
}

// Identity is what the certificate of the Node says; empty while there is none.
func (d *Device) Identity() string { return d.Credential.Identity() }

// Problems are why packets to some Nodes are not encrypted, sorted.
func (d *Device) Problems() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for identity, c := range d.calls {
		if c.reason != "" {
			out = append(out, fmt.Sprintf("no IPsec with %s: %s", identity, c.reason))
		}
	}
	slices.Sort(out)
	return out
}

// Run keeps the certificate of the Node, and calls other Nodes, until ctx ends: what is encrypted
// stays so. wanted is the identity that the Node is to have, empty while that is not known. wake is
// called when the device is to be looked at.
func (d *Device) Run(ctx context.Context, wanted func() string, wake func()) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { d.watch(ctx, wake) })
	turn := d.Clock.NewTicker(lookInterval)
	defer turn.Stop()
	var next time.Time
	wait := askAgain
	for {
		select {
		case <-ctx.Done():
			return
		case <-turn.C():
		}
		if id, now := wanted(), d.Clock.Now(); id != "" && !now.Before(next) && d.Credential.due(id, now) && d.answers() {
			err := recovered.Call(func() error { return d.certify(ctx) })
			d.mu.Lock()
			d.uncertified = ""
			if err != nil {
				d.uncertified = err.Error()
				d.Log.Info("The Node gets no certificate for IPsec, trying again", "reason", err.Error())
			}
			d.mu.Unlock()
			if next, wait = now.Add(wait), min(2*wait, askLater); err == nil {
				wait = askAgain
				wake()
			}
		}
		if err := recovered.Call(func() error { return d.look(ctx, &running) }); err != nil {
			d.Log.V(1).Info("It is not known how charon stands", "reason", err.Error())
		}
	}
}

// answers reports whether there is a charon: without one the Node is not to say that it encrypts.
func (d *Device) answers() bool {
	link, _ := d.Link()
	return link != ""
}

// certify has the controller sign for a new key.
func (d *Device) certify(ctx context.Context) error {
	key, asked, err := request()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, initiateLimit)
	defer cancel()
	certificate, authorities, err := d.Certify(ctx, string(asked))
	if err != nil {
		return fmt.Errorf("the controller: %w", err)
	}
	if err := d.Credential.keep(key, certificate, authorities); err != nil {
		return err
	}
	d.Log.Info("The Node has a new certificate for IPsec", "identity", d.Identity())
	return nil
}

// watch wakes when charon comes or goes.
func (d *Device) watch(ctx context.Context, wake func()) {
	for ctx.Err() == nil {
		if err := d.follow(ctx, wake); err != nil {
			d.Log.V(1).Info("charon does not answer, trying again", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-d.Clock.After(talkAgain):
		}
	}
}

// follow holds a conversation with charon until that ends, or ctx does.
func (d *Device) follow(ctx context.Context, wake func()) error {
	c, err := talk(d.Socket)
	if err != nil {
		return err
	}
	defer c.close()
	events := make(chan vici.Event, 1)
	c.session.NotifyEvents(events)
	if err := c.session.Subscribe("ike-updown"); err != nil {
		return err
	}
	wake()
	defer wake()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-events:
			if !open {
				return nil
			}
		}
	}
}

// look calls Nodes to which nothing is encrypted.
func (d *Device) look(ctx context.Context, running *sync.WaitGroup) error {
	c, err := talk(d.Socket)
	if err != nil {
		return nil // none is there, which Ensure reports
	}
	defer c.close()
	peers, err := c.peers()
	if err != nil {
		return err
	}
	sas, err := c.sas()
	if err != nil {
		return err
	}
	now := d.Clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	busy := 0
	for _, one := range d.calls {
		if one.running {
			busy++
		}
	}
	maps.DeleteFunc(d.calls, func(identity string, one *call) bool {
		_, there := peers[identity]
		return !one.running && (!there || sas[identity].up)
	})
	for _, identity := range slices.Sorted(maps.Keys(peers)) {
		if sas[identity].up {
			continue
		}
		one := d.calls[identity]
		if one == nil {
			one = &call{since: now}
			d.calls[identity] = one
		}
		wait := calledAfter
		if d.firsts[identity] {
			wait = 0
		}
		if one.running || sas[identity].begun || busy == callsAtOnce || now.Sub(one.since) < wait || now.Before(one.after) {
			continue
		}
		busy++
		one.running = true
		running.Go(func() { d.call(ctx, identity, one) })
	}
	return nil
}

// call calls a Node, and notes what came of it.
func (d *Device) call(ctx context.Context, identity string, one *call) {
	err := recovered.Call(func() error {
		c, err := talk(d.Socket)
		if err != nil {
			return err
		}
		defer c.close()
		return c.initiate(ctx, identity)
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	one.running, one.after = false, d.Clock.Now().Add(callAgain)
	if one.reason = ""; err != nil {
		one.reason = err.Error()
		d.Log.V(1).Info("Another Node is not reached by IPsec", "identity", identity, "reason", one.reason)
	}
}
