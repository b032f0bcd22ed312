package controller

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/history"
)

// past joins the history of policies with its sources. A nil past keeps none.
type past struct {
	recorder *history.Recorder
	keys     *history.Keys
	authors  *history.Authors
	metrics  *history.Metrics
}

// newPast returns the history of this process; nil if none is to be kept, or if an Antrea
// Controller has the policies.
func newPast(mgr manager.Manager, o Options) *past {
	if o.Antrea != nil || o.History.PerObject <= 0 {
		return nil
	}
	keys := history.NewKeys(history.KeysOptions{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: history.KeysNamespace, Clock: clock.RealClock{}, Log: o.Log.WithName("history"),
	})
	p := &past{keys: keys, authors: history.NewAuthors(), metrics: history.NewMetrics()}
	p.recorder = history.New(history.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Log: o.Log.WithName("history"), Bounds: o.History,
		Authors: p.authors, Metrics: p.metrics, Proofs: keys,
	})
	return p
}

// start makes the manager run it.
func (p *past) start(mgr manager.Manager, proc *process) error {
	if p == nil {
		return nil
	}
	if err := proc.metrics.show(p.metrics); err != nil {
		return err
	}
	if err := errors.Join(mgr.Add(p.recorder), mgr.Add(manager.RunnableFunc(p.keys.Keep))); err != nil {
		return fmt.Errorf("keep the history of policies: %w", err)
	}
	return nil
}

// observer is the history that policies are reported to.
func (p *past) observer() control.History {
	if p == nil {
		return nil
	}
	return p.recorder
}

// witness is the history that authors are reported to: nil, unless it is certain that only
// kube-apiserver calls the webhooks.
func (proc *process) witness() webhook.Witness {
	if proc.past == nil || proc.API == nil || proc.API.WebhookClientCA == "" {
		return nil
	}
	return proc.past.authors
}

// audit is the record of changes of which the history hears, too.
// Only the process that leads, since leads is closed, writes the history.
func (p *past) audit(record clouds.Auditor, leads <-chan struct{}) clouds.Auditor {
	if p == nil {
		return record
	}
	return overheard{record, p.recorder, leads}
}

// authors are the people who wrote policies last, each once.
func (a overheard) authors(policies []string) []string {
	var out []string
	for _, p := range policies {
		who := a.history.Author(p)
		if who == "" {
			who = "unknown"
		}
		if !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	return out
}

// overheard is a record of changes of which the history hears.
type overheard struct {
	clouds.Auditor
	history *history.Recorder
	leads   <-chan struct{}
}

// Begin implements Auditor.
func (a overheard) Begin(c cloud.Call) (end func(cloud.Outcome)) {
	c.By = a.authors(c.Policies)
	ended := a.Auditor.Begin(c)
	return func(o cloud.Outcome) {
		ended(o)
		select {
		case <-a.leads:
		default:
			return
		}
		failure := ""
		if o.Err != nil {
			failure = o.Err.Error()
		}
		for _, p := range c.Policies {
			a.history.Called(c.Account, p, c.Name, failure)
		}
	}
}
