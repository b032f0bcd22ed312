package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// AntreaFlags say whether an Antrea Controller computes the policies, and where it is.
type AntreaFlags struct {
	kubeconfig string
	aggregated bool
	member     bool
}

// Register adds the flags to a command.
func (f *AntreaFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(
		&f.kubeconfig,
		"antrea-kubeconfig",
		"",
		"take the computed policies from the Antrea Controller that this kubeconfig file leads to, instead of computing them here",
	)
	flags.BoolVar(&f.aggregated, "antrea", false, "the same through the cluster's own API server, where an Antrea Controller has registered its API")
	flags.BoolVar(
		&f.member,
		"antrea-member",
		false,
		"with one of these: let the cluster be a member of a set, whose hub's policies the Antrea Controller is told of; not beside a Nephele controller that computes policies",
	)
}

// Config returns controller.Options.Antrea for the cluster that the controller works on; nil if the
// policies are computed here.
func (f *AntreaFlags) Config(cluster *rest.Config) (func() (*rest.Config, error), error) {
	switch {
	case f.kubeconfig != "" && f.aggregated:
		return nil, errors.New("--antrea and --antrea-kubeconfig say different things: give one of them")
	case f.member && f.kubeconfig == "" && !f.aggregated:
		return nil, errors.New("--antrea-member is for --antrea and --antrea-kubeconfig: a controller that computes policies can always be a member")
	case f.aggregated:
		return func() (*rest.Config, error) { return cluster, nil }, nil
	case f.kubeconfig != "":
		return func() (*rest.Config, error) {
			cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
			if err != nil {
				return nil, fmt.Errorf("--antrea-kubeconfig %s: %w", f.kubeconfig, err)
			}
			return cfg, nil
		}, nil
	}
	return nil, nil
}

// Member is controller.Options.AntreaMember.
func (f *AntreaFlags) Member() bool { return f.member }

// SharedGroups are the API groups whose definitions an Antrea installation brings as well.
func (f *AntreaFlags) SharedGroups() []string {
	if f.kubeconfig == "" && !f.aggregated {
		return nil
	}
	return []string{antreav1beta1.GroupVersion().Group}
}
