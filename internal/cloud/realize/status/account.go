package status

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// maxNote is the longest text that the API takes for an Event.
const maxNote = 1024

// note fits a text into an Event.
func note(text string) string {
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote-3], "") + "..."
	}
	return text
}

// account returns the account of a report; nil if it is gone, and its status cannot be written.
func (s *Writer) account(ctx context.Context, r Report) (*cloudv1.CloudProviderAccount, error) {
	ns, name, _ := strings.Cut(r.Account, "/")
	var account cloudv1.CloudProviderAccount
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &account)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("events of CloudProviderAccount %s: %w", r.Account, err)
	}
	return &account, nil
}

func (s *Writer) tellAccount(account *cloudv1.CloudProviderAccount, reason, text string) {
	if account != nil {
		s.Events.Eventf(account, nil, corev1.EventTypeWarning, reason, "Realize", "%s", note(text))
	}
}

// reportFailure tells once why rounds fail, until one of them reaches its end or they fail for
// another reason.
func (s *Writer) reportFailure(ctx context.Context, a *accountStatus, r Report) error {
	if r.Err == nil {
		if r.Result != nil && r.Result.Plan.Empty() {
			a.told.failing = ""
		}
		return nil
	}
	kind := cloud.FailureKind(r.Err)
	if a.told.failing == kind {
		return nil
	}
	account, err := s.account(ctx, r)
	if err != nil {
		return err
	}
	a.told.failing = kind
	s.tellAccount(account, "RealizationFailed", cloud.FailureText(r.Err))
	return nil
}

// reportDrift tells, once per difference, what somebody else changed on objects that we control.
func (s *Writer) reportDrift(ctx context.Context, a *accountStatus, r Report) error {
	s.mu.Lock()
	untold := a.untold
	a.untold = nil
	s.mu.Unlock()
	if len(untold) == 0 {
		return nil
	}
	account, err := s.account(ctx, r)
	if err != nil {
		s.mu.Lock()
		a.untold = append(untold, a.untold...)
		s.mu.Unlock()
		return err
	}
	for _, d := range untold {
		s.ask(r.Account, &d.found)
		s.tellAccount(account, d.reason, d.String())
	}
	return nil
}
