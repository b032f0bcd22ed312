package explaincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
)

// FlowsNeeds are what "flows" reads policies and clouds with: as explain does, but of all accounts.
func FlowsNeeds() flowscmd.Needs {
	var f explainFlags
	return flowscmd.Needs{
		Register: func(flags *pflag.FlagSet) {
			flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
			f.cluster.Register(flags)
			f.clouds.register(flags)
		},
		Read:      func(cmd *cobra.Command) (*explain.Computation, error) { return f.readAll(cmd) },
		Printable: terminal.Printable, Now: time.Now, After: time.After,
		Ask:    f.asker,
		Window: func(out io.Writer) io.Writer { return terminal.WindowOf(out) },
	}
}

// readAll reads what questions about all machines are answered from.
func (f *explainFlags) readAll(cmd *cobra.Command) (*explain.Computation, error) {
	if f.clouds.snapshot != "" || len(f.files) > 0 {
		c, err := f.read(cmd)
		if err != nil {
			return nil, err
		}
		return c.Computed, nil
	}
	c, err := f.cluster.ClientOrFiles()
	if err != nil {
		return nil, err
	}
	in, err := source.Inputs(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, a := range in.Objects.Accounts {
		keys = append(keys, cloud.AccountKey(a.Namespace, a.Name))
	}
	f.readClouds(cmd.Context(), c, in, keys)
	computed := preview.Compute(in)
	terminal.Notes(cmd, in.Notes)
	return computed.Computed, nil
}

// asker has the controller of the cluster answer questions about flows. Nobody else knows the
// answer.
func (f *explainFlags) asker(*cobra.Command) (flowscmd.Asker, error) {
	c, err := f.cluster.ClientOrFiles()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q *v1alpha1.FlowQuery) error {
		err := c.Create(ctx, q)
		undiscovered := (*apiutil.ErrResourceDiscoveryFailed)(nil)
		switch {
		case err == nil:
			return nil
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err), errors.As(err, &undiscovered):
			return errors.New("no controller of this cluster answers questions about flows: want one of this version that serves the computed API (nephele up, or nephele controller --api), or flow logs with --logs")
		case apierrors.IsForbidden(err):
			return fmt.Errorf("the controller may not be asked about flows; ClusterRole nephele-reviewer allows it: %w", err)
		}
		return fmt.Errorf("asking the controller about flows: %w", err)
	}, nil
}
