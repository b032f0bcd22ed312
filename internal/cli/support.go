package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/checkcmd"
	"github.com/nephele-io/nephele/internal/cli/plancmd"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/support"
)

const (
	// defaultBundle bounds a bundle, unpacked.
	defaultBundle = 64 << 20
	// supportTimeout bounds the reading of metrics and the plan.
	supportTimeout = 2 * time.Minute
)

func newSupportCommand() *cobra.Command {
	var cluster source.ClusterFlags
	var file, dataDir, metrics string
	var most int64
	var noPlan bool
	var age time.Duration
	cmd := &cobra.Command{
		Use:   "support",
		Short: "Collect what support needs to see, without secrets",
		Long: `Collect what support needs to see into one tar.gz: objects with their statuses, events, versions, the plan, the logs of
nephele up if --data-dir names its directory, and metrics if --metrics names their address.

Secrets are never in it. What looks like a key, a token or a password is removed wherever it stands, and so are the values of the
accounts' Secrets if you may read them, which makes that certain. Names, addresses, tags and policies stay: look before you send.

Exit codes: 0 written; 2 bad input or failure.`,
		Example: `  nephele support
  nephele support --data-dir nephele-data --file bundle.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			const least = 1 << 20
			if most < least {
				return fmt.Errorf("--max-bytes %d: want at least %d", most, least)
			}
			if age < 0 {
				return fmt.Errorf("--since %s: want a duration, for example 2h", age)
			}
			c, err := cluster.Client()
			if err != nil {
				return err
			}
			now, since := time.Now(), time.Time{}
			if age > 0 {
				since = now.Add(-age)
			}
			o := support.Options{Client: c, MaxBytes: most, Now: time.Now}
			if dataDir != "" {
				if o.Sources, err = support.Logs(os.DirFS(filepath.Join(dataDir, "logs")), since, now); err != nil {
					return err
				}
				if len(o.Sources) == 0 {
					return fmt.Errorf("--data-dir %s: there are no logs in it", dataDir)
				}
			}
			o.Sources = append(o.Sources, support.Source{Name: "versions.json", Read: readVersions(cluster)})
			if metrics != "" {
				o.Sources = append(o.Sources, support.Source{Name: "metrics.txt", Read: readMetrics(metrics)})
			}
			if !noPlan {
				o.Sources = append(o.Sources, support.Source{Name: "plan.json", Read: readPlan(cluster)})
			}
			if file == "" {
				file = "nephele-support-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			contents, err := support.Write(cmd.Context(), out, o)
			if err = errors.Join(err, out.Close()); err != nil {
				return errors.Join(err, os.Remove(file))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s has %s.\n", file, terminal.Plural(len(contents.Files), "file", "files"))
			for _, l := range contents.LeftOut {
				fmt.Fprintln(cmd.OutOrStdout(), terminal.Folded("left out: ", "  ", terminal.Printable(l)))
			}
			return nil
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.StringVar(&file, "file", "", "file to write (default nephele-support-TIME.tar.gz); it must not exist")
	f.StringVar(&dataDir, "data-dir", "", "data directory of nephele up, for its logs")
	f.DurationVar(&age, "since", 0, "leave out lines of logs that are older; 0 leaves out none")
	f.StringVar(&metrics, "metrics", "", "URL of the metrics of the controller, such as http://127.0.0.1:8080/metrics")
	f.Int64Var(&most, "max-bytes", defaultBundle, "most that the bundle has, unpacked")
	f.BoolVar(&noPlan, "no-plan", false, "leave the plan out, for which the clouds are read with the accounts' Secrets")
	return cmd
}

func readVersions(cluster source.ClusterFlags) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		versions := map[string]any{"nephele": built()}
		if cfg, err := cluster.Config(); err == nil {
			if info, _, err := checkcmd.VersionOf(cfg)(ctx); err == nil {
				versions["kubernetes"] = info
			}
		}
		text, err := json.MarshalIndent(versions, "", "  ")
		return io.NopCloser(bytes.NewReader(text)), err
	}
}

func readMetrics(url string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		ctx, cancel := context.WithTimeout(ctx, supportTimeout)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			cancel()
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			cancel()
			return nil, err
		}
		const most = 32 << 20
		body := &ended{io.LimitReader(resp.Body, most), func() error { defer cancel(); return resp.Body.Close() }}
		if resp.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("GET %s: %s", url, resp.Status), body.Close())
		}
		return body, nil
	}
}

// ended is a reader that does something when it is closed.
type ended struct {
	io.Reader
	close func() error
}

func (e *ended) Close() error { return e.close() }

// readPlan runs the command plan.
func readPlan(cluster source.ClusterFlags) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		ctx, cancel := context.WithTimeout(ctx, supportTimeout)
		defer cancel()
		var out bytes.Buffer
		plan := plancmd.Command()
		plan.SetOut(&out)
		plan.SetErr(io.Discard)
		plan.SilenceUsage, plan.SilenceErrors = true, true
		args := []string{"-o", "json"}
		for flag, value := range map[string]string{"kubeconfig": cluster.Kubeconfig, "context": cluster.Context} {
			if value != "" {
				args = append(args, "--"+flag+"="+value)
			}
		}
		plan.SetArgs(args)
		if err := plan.ExecuteContext(ctx); err != nil && !errors.Is(err, terminal.ErrNo) && out.Len() == 0 {
			return nil, err
		}
		return io.NopCloser(&out), nil
	}
}
