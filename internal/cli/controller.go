package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/controller"
)

// NewControllerCommand returns the command nephele controller.
func NewControllerCommand() *cobra.Command {
	var cluster source.ClusterFlags
	var o controller.Options
	var verbose bool
	var format terminal.LogFormat
	var api controller.APIOptions
	var antrea AntreaFlags
	var access source.AccessFlags
	var past HistoryFlags
	serving := servingFlags{api: &api}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller against a Kubernetes API",
		Long: `Run the controller: it computes the policies of the cluster, imports the VMs of the cloud accounts, and enforces the policies
on them through the clouds' security groups.

One controller works on a cluster at a time, the one that holds its lease: "nephele up" has one already. Others wait, and say for whom.

The CustomResourceDefinitions must be installed (kubectl apply -f api/generated/crd), and so should be the policies that check the
rights of those who write accounts, selectors and policies (kubectl apply -k config/grants). Inside a cluster the Pod's own ServiceAccount is
used; else --kubeconfig, the variable KUBECONFIG or ~/.kube/config.`,
		Example: `  nephele controller --kubeconfig ~/.kube/config
  nephele controller --metrics 0.0.0.0:8080 --health 0.0.0.0:8081`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := cluster.Config()
			if err != nil {
				return fmt.Errorf("find the Kubernetes API: %w", err)
			}
			o.Version = Version()
			o.Log, o.LogLevel = format.New(cmd.ErrOrStderr(), verbose)
			klog.SetLogger(o.Log) // the libraries of Kubernetes have one for the process
			if o.Access, err = access.Access(); err != nil {
				return err
			}
			if o.Antrea, err = antrea.Config(cfg); err != nil {
				return err
			}
			o.AntreaMember = antrea.Member()
			if o.History, err = past.Bounds(); err != nil {
				return err
			}
			if err := serving.apply(&o); err != nil {
				return err
			}
			switch {
			case o.Antrea != nil && api.Address != "":
				return errors.New("--api serves what is computed here; with --antrea or --antrea-kubeconfig nothing is")
			case o.Antrea != nil && o.NoClouds:
				return errors.New("--no-clouds leaves nothing to do with --antrea or --antrea-kubeconfig")
			case o.NoClouds && api.Address == "":
				return errors.New("--no-clouds needs --api: without either nobody is served")
			case api.Address != "" && (api.CertDir == "") == (api.TLSDir == ""):
				return errors.New("--api needs either --api-cert-dir, a directory that keeps the certificate over restarts, or --api-tls-dir")
			case api.Address != "":
				o.API = &api
			}
			return controller.Run(cmd.Context(), cfg, o)
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.StringVar(
		&o.MetricsAddress,
		"metrics",
		"127.0.0.1:8080",
		"HOST:PORT for Prometheus metrics, over TLS and for users who may get /metrics unless it is a loopback address; 0 for none",
	)
	f.StringVar(&o.HealthAddress, "health", "", "HOST:PORT for /healthz and /readyz, which anybody may ask; empty for none")
	registerLease(f, &o.Lease)
	f.StringVar(
		&api.Address,
		"api",
		"",
		"HOST:PORT to serve the computed policies on, to agents, and the admission webhooks; empty for none. Service "+controller.APIService+" must lead there",
	)
	f.StringVar(&api.Namespace, "api-namespace", controller.APINamespace, "namespace of Service "+controller.APIService+"; Antrea Agents look for it in "+controller.APINamespace)
	f.StringVar(&api.CertDir, "api-cert-dir", "", "directory that keeps the certificate of --api; created if missing")
	f.BoolVar(&api.WithoutWebhooks, "without-webhooks", false, "do not register the admission webhooks that --api serves, and remove those registered before")
	f.StringVar(&api.TLSDir, "api-tls-dir", "", "directory with tls.crt, tls.key and ca.crt for --api, which somebody else (cert-manager) keeps current")
	RegisterEnforcers(f, &api)
	serving.register(f)
	antrea.Register(f)
	RegisterAuditLog(f, &o.AuditLog)
	access.Register(f)
	past.Register(f)
	RegisterInstance(f, &o.Instance)
	RegisterPropagation(f, &o.Propagation)
	RegisterFlows(f, &o.Flows)
	f.BoolVar(&o.Sharing.Accounts, "share-accounts", false, "share the cloud accounts out between all replicas, instead of having them wait; give it to all of them")
	f.DurationVar(&o.Sharing.Lease, "share-lease", controller.DefaultShareLease, "with --share-accounts, after how long others work on the accounts of a replica that is not heard of")
	f.BoolVar(&o.NoClouds, "no-clouds", false, "only compute and serve policies; leave the cloud accounts to another process with --antrea")
	terminal.RegisterLogFormat(f, "log-format", &format)
	f.BoolVarP(&verbose, "verbose", "v", false, "log every round of computation")
	return cmd
}
