// Package events makes the events of the simulated cloud: what EventBridge would put into a queue
// when an EC2 call has changed something (CloudTrail's record of the call) and when an instance
// changes its state.
//
// It promises one record per committed mutation of EC2 objects and one notification per state of an
// instance, each as many times and as late as Options say, into every queue that a Sink names. It
// changes nothing in the World.
//
// Concurrency: an Emitter is called by the World, one call at a time; its hooks only send to queues
// and never call the World.
package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// Options are the knobs of an Emitter.
type Options struct {
	// Delay is how long events take. CloudTrail's take longer in the real cloud; here both take as
	// long.
	Delay time.Duration
	// Copies is how often each event is delivered; 0 means once.
	Copies int
	// Wanted reports whether anybody takes the events of an account's region; nil means that
	// somebody does.
	Wanted func(account, region string) bool
	// Send delivers the event of an account's region.
	Send func(account, region, body string, delay time.Duration)
}

// Emitter watches a World. Make it with Watch.
type Emitter struct {
	o    Options
	w    *world.World
	stop []func()

	mu  sync.Mutex
	seq uint64
}

// Watch begins to emit events about the world, until Close.
func Watch(w *world.World, o Options) *Emitter {
	e := &Emitter{o: o, w: w}
	e.stop = []func(){w.OnMutation(e.mutation), w.OnTransition(e.transition)}
	return e
}

// Close ends the emitting.
func (e *Emitter) Close() {
	for _, f := range e.stop {
		f()
	}
}

// SetDelay changes Options.Delay for events from now on.
func (e *Emitter) SetDelay(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.o.Delay = d
}

// envelope is the form of every event.
type envelope struct {
	Version    string   `json:"version"`
	ID         string   `json:"id"`
	DetailType string   `json:"detail-type"`
	Source     string   `json:"source"`
	Account    string   `json:"account"`
	Time       string   `json:"time"`
	Region     string   `json:"region"`
	Resources  []string `json:"resources"`
	Detail     any      `json:"detail"`
}

// place is where an event happens.
type place struct {
	account, region string
	at              time.Time
	source          string // the service; "" is EC2
}

func (e *Emitter) send(p place, kind string, resources []string, detail func(id string) any) {
	if e.o.Wanted != nil && !e.o.Wanted(p.account, p.region) {
		return
	}
	e.mu.Lock()
	e.seq++
	id := fmt.Sprintf("%08x-6e65-4068-8000-%012x", uint32(p.at.Unix()), e.seq)
	delay, copies := e.o.Delay, max(e.o.Copies, 1)
	e.mu.Unlock()
	if resources == nil {
		resources = []string{}
	}
	body, err := json.Marshal(envelope{
		Version: "0", ID: id, DetailType: kind, Source: "aws." + cmp.Or(p.source, "ec2"), Account: p.account, Region: p.region,
		Time: stamp(p.at), Resources: resources, Detail: detail(id),
	})
	if err != nil {
		return // values that this package made up are always encodable
	}
	for range copies {
		e.o.Send(p.account, p.region, string(body), delay)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// transition reports a state that an instance has reached by itself.
func (e *Emitter) transition(t aws.Transition) {
	if aws.ResourceType(t.ID) != "instance" {
		return
	}
	if _, known := aws.ParseInstanceState(t.To); known {
		e.state(place{t.Account, t.Region, t.At, ""}, t.ID, t.To)
	}
}

func (e *Emitter) state(p place, instance, state string) {
	e.send(p, "EC2 Instance State-change Notification", []string{aws.ARN(p.region, p.account, instance)}, func(string) any {
		return map[string]string{"instance-id": instance, "state": state}
	})
}

// stateAfter is the state that instances are in after an action.
func stateAfter(action string) string {
	switch action {
	case "RunInstances", "StartInstances":
		return "pending"
	case "StopInstances":
		return "stopping"
	case "TerminateInstances":
		return "shutting-down"
	}
	return ""
}

// mutation reports a call, and of the states that it has brought instances into.
func (e *Emitter) mutation(m aws.Mutation) {
	switch m.Action {
	case "AddCredential", "RemoveCredential", "AssumeRole", "SetQuotas":
		return
	case "AddPeering", "SetPeeringStatus":
		e.peering(m)
		return
	}
	p := place{m.Account, m.Region, m.Time, ""}
	if len(m.Resources) > 0 && strings.HasPrefix(m.Resources[0], "arn:") {
		e.service(p, m)
		return
	}
	e.send(p, "AWS API Call via CloudTrail", nil, func(id string) any { return record(m, id) })
	if state := stateAfter(m.Action); state != "" {
		for _, id := range m.Resources {
			if strings.HasPrefix(id, "i-") {
				e.state(p, id, state)
			}
		}
	}
}

// serviceOf is the service whose API a mutation is of: that of the ARN that it names first.
func serviceOf(m aws.Mutation) string {
	if len(m.Resources) > 0 {
		if parts := strings.Split(m.Resources[0], ":"); len(parts) > 2 && parts[0] == "arn" {
			return parts[2]
		}
	}
	return "ec2"
}

// service reports a call to the API of a native service, and of what that service then does to its
// interfaces, which is recorded as calls of its own to EC2.
func (e *Emitter) service(p place, m aws.Mutation) {
	if m.Cause != nil {
		p.source = serviceOf(m)
		e.send(p, "AWS API Call via CloudTrail", nil, func(id string) any { return record(m, id) })
		p.source = ""
	}
	region, err := e.w.Region(m.Account, m.Region)
	if err != nil {
		return
	}
	for _, nic := range m.Resources[1:] {
		own := m
		own.Cause, own.Resources, own.Action = nil, []string{nic}, "DeleteNetworkInterface"
		if _, err := region.NetworkInterfaces(nic); err == nil {
			own.Action = "CreateNetworkInterface"
			if m.Cause != nil {
				own.Action = "ModifyNetworkInterfaceAttribute"
			}
		}
		e.send(p, "AWS API Call via CloudTrail", nil, func(id string) any {
			out := record(own, id)
			out["userIdentity"] = object{"type": "AWSService", "invokedBy": serviceOf(m) + ".amazonaws.com"}
			return out
		})
	}
}

// peering tells both sides of a peering about its new status.
func (e *Emitter) peering(m aws.Mutation) {
	for _, a := range e.w.Accounts() {
		for _, info := range e.w.Regions(a.ID) {
			r, err := e.w.Region(a.ID, info.Name)
			if err != nil {
				continue
			}
			sides, err := r.Peerings().PeeringConnections(m.Resources...)
			if err != nil || len(sides) == 0 {
				continue
			}
			here := m
			here.Account, here.Region, here.Action = a.ID, info.Name, "AcceptVpcPeeringConnection"
			if sides[0].Status != aws.PeeringActive {
				here.Action = "DeleteVpcPeeringConnection"
			}
			e.send(place{a.ID, info.Name, m.Time, ""}, "AWS API Call via CloudTrail", nil, func(id string) any { return record(here, id) })
		}
	}
}
