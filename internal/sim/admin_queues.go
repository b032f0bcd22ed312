package sim

import (
	"cmp"
	"net/http"

	"github.com/nephele-io/nephele/internal/sim/sqs"
)

// This file holds the admin endpoints about queues.

// queueStatus is what a person wants to know of a queue.
type queueStatus struct {
	URL     string `json:"url"`
	ARN     string `json:"arn"`
	Visible int    `json:"visible"`
	Hidden  int    `json:"hidden"`
}

func (o operator) queueList() (any, error) {
	out := []queueStatus{}
	for _, ref := range o.s.queues.Refs() {
		visible, hidden, err := o.s.queues.Depth(ref)
		if err != nil {
			continue // deleted since
		}
		out = append(out, queueStatus{URL: o.s.URL() + ref.Path(), ARN: ref.ARN(), Visible: visible, Hidden: hidden})
	}
	return out, nil
}

// queueRef: account, region and name default to the first account, its first region and the queue
// for events.
func (o operator) queueRef(r *http.Request) (sqs.Ref, error) {
	region, err := o.region(r.FormValue("account"), r.FormValue("region"))
	if err != nil {
		return sqs.Ref{}, err
	}
	return sqs.Ref{Account: region.Account(), Region: region.Name(), Name: cmp.Or(r.FormValue("name"), DefaultEventQueue)}, nil
}

func (o operator) postQueue(r *http.Request) (any, error) {
	ref, err := o.queueRef(r)
	if err != nil {
		return nil, err
	}
	if err := o.s.queues.Create(ref, nil); err != nil {
		return nil, badRequest{err}
	}
	return queueStatus{URL: o.s.URL() + ref.Path(), ARN: ref.ARN()}, nil
}

func (o operator) deleteQueue(r *http.Request) (any, error) {
	ref, err := o.queueRef(r)
	if err != nil {
		return nil, err
	}
	if err := o.s.queues.Delete(ref); err != nil {
		return nil, badRequest{err}
	}
	return nil, nil
}

func (o operator) postEventDelay(r *http.Request) (any, error) {
	d, err := formDuration(r, "delay")
	if err != nil {
		return nil, err
	}
	o.s.SetEventDelay(d)
	return nil, nil
}
