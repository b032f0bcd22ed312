package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/config/grants"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// authorsInterval is how often it is looked whether the policies of config/grants are installed.
const authorsInterval = 5 * time.Minute

// authorsCheck knows whether the cluster checks the rights of authors of accounts, selectors and
// policies. It is safe for concurrent use.
type authorsCheck struct {
	reader client.Reader
	log    logr.Logger
	clock  clock.Clock
	// changed, if set, is called when the answer is another one.
	changed func()

	unchecked atomic.Pointer[string]
	// told is what was last logged; only look uses it, which runs once at a time.
	told string
}

// Unchecked says what was missing when that could last be told; "" if nothing was.
func (c *authorsCheck) Unchecked() string {
	if text := c.unchecked.Load(); text != nil {
		return *text
	}
	return ""
}

// Start looks again and again until ctx ends.
func (c *authorsCheck) Start(ctx context.Context) error {
	for {
		if fault := recovered.Do(func() { c.look(ctx) }); fault != nil {
			c.log.Error(fault, "Looking at rights panicked", "stack", recovered.StackOf(fault))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.clock.After(authorsInterval):
		}
	}
}

// look asks the API server.
func (c *authorsCheck) look(ctx context.Context) {
	text, err := c.missing(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.tell(err.Error(), func() {
			c.log.Info("Cannot tell whether the rights of authors of accounts, selectors and policies are checked", "reason", err.Error())
		})
		return
	}
	c.tell(text, func() {
		if text != "" {
			c.log.Info("WARNING: " + text)
		}
	})
	if former := c.Unchecked(); former != text {
		c.unchecked.Store(&text)
		if c.changed != nil {
			c.changed()
		}
	}
}

// tell calls log unless the same was logged last.
func (c *authorsCheck) tell(text string, log func()) {
	if text != c.told {
		c.told = text
		log()
	}
}

// missing returns what is not installed, in words; "" if all is.
func (c *authorsCheck) missing(ctx context.Context) (string, error) {
	var missing []string
	for _, name := range grants.Policies() {
		inForce, err := c.inForce(ctx, name)
		if err != nil {
			return "", err
		}
		if !inForce {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the rights of authors of accounts, selectors, policies and break-glass are not all checked, because these ValidatingAdmissionPolicies or their "+
		"bindings are not installed: %s (kubectl apply --server-side -k config/grants)", strings.Join(missing, ", ")), nil
}

// inForce reports whether a policy is there and refuses requests.
func (c *authorsCheck) inForce(ctx context.Context, name string) (bool, error) {
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	for _, o := range []client.Object{&policy, &binding} {
		if err := c.reader.Get(ctx, client.ObjectKey{Name: name}, o); apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read %T %s: %w", o, name, err)
		}
	}
	return binding.Spec.PolicyName == name && slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny), nil
}
