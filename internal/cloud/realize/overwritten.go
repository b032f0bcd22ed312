package realize

import (
	"hash/maphash"
	"maps"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// This file puts right what somebody writes over the status of VMs: the next report may be far away
// if nothing happens.

// correctPause is how long a status stays wrong, so that somebody who writes again and again does
// not keep us busy.
const correctPause = time.Second

// vmKey names the VirtualMachine behind an entity.
func vmKey(ref plan.EntityRef) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: strings.TrimPrefix(ref.Name, cloudv1.EntityNamePrefix)}
}

// VMChanged tells of a VirtualMachine as it is now. If it does not show what was written into its
// status, the last report of its account is brought to the objects again. It may be called at any
// time and by anyone who watches the objects; it does not block.
func (s *StatusWriter) VMChanged(vm *cloudv1.VirtualMachine) {
	key, sum := client.ObjectKeyFromObject(vm), s.sum(&vm.Status)
	s.mu.Lock()
	defer s.mu.Unlock()
	for account, vms := range s.shown {
		if want, known := vms[key]; known && want != sum && !s.spoilt[account] {
			s.spoilt[account] = true
			put(s.wake)
		}
	}
}

// sum identifies the part of a VM's status that we own.
func (s *StatusWriter) sum(status *cloudv1.VirtualMachineStatus) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	add := func(parts ...string) {
		for _, part := range parts {
			_, _ = h.WriteString(part)
			_ = h.WriteByte(0)
		}
	}
	add(status.PolicySummary)
	for _, p := range status.Policies {
		add(p.Kind, p.Namespace, p.Name, string(p.UID), strconv.FormatInt(p.Generation, 10), string(p.Phase), p.Message)
	}
	for _, kind := range []string{cloudv1.ConditionRealized, cloudv1.ConditionBreakGlass, cloudv1.ConditionPlanned, cloudv1.ConditionRecordsSigned,
		cloudv1.ConditionAgented, cloudv1.ConditionObstructed} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			add(kind, string(c.Status), c.Reason, c.Message)
		}
	}
	return h.Sum64()
}

// shows notes what a VM shows from now on. It is called before that is written, so that the news of
// it finds it noted.
func (s *StatusWriter) shows(account string, vm *cloudv1.VirtualMachine) {
	sum := s.sum(&vm.Status)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown[account] == nil {
		s.shown[account] = map[client.ObjectKey]uint64{}
	}
	s.shown[account][client.ObjectKeyFromObject(vm)] = sum
}

// look begins to bring a report to the VMs; what was found to be overwritten before is put right by
// that.
func (s *StatusWriter) look(r Report) (seen map[client.ObjectKey]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.spoilt, r.Account)
	return map[client.ObjectKey]bool{}
}

// looked ends it: other VMs are none of the account any more.
func (s *StatusWriter) looked(r Report, seen map[client.ObjectKey]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.shown[r.Account], func(key client.ObjectKey, _ uint64) bool { return !seen[key] })
	s.last[r.Account] = r
	if len(seen) == 0 {
		delete(s.shown, r.Account)
		delete(s.last, r.Account)
	}
}

// takeSpoilt returns the last reports of the accounts some of whose VMs were written over since the
// last call.
func (s *StatusWriter) takeSpoilt() map[string]Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Report{}
	for account := range s.spoilt {
		if r, known := s.last[account]; known {
			out[account] = r
		}
	}
	clear(s.spoilt)
	return out
}
