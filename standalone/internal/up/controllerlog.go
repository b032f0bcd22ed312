package up

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// Home is where a controller keeps what it writes.
type Home struct {
	// Log takes what the controller has to say.
	Log io.Writer
	// LogDir is the folder of the log files.
	LogDir string
	// Certificates is a directory for the certificate of the API that the controller serves.
	Certificates string
	// Audit is the file for the record of changes in clouds.
	Audit string
	// Flows is the folder for the connections that agents report.
	Flows string
	// WebhookClientCA is the authority of the certificate with which the API server asks admission
	// webhooks.
	WebhookClientCA string
	// Ready is to be called as a RunController calls it.
	Ready func()
}

// apiDir is the folder for the certificate of the API that the controller serves.
const apiDir = "api-pki"

// LoggingController is a RunController that has a place for its log and its files.
type LoggingController func(ctx context.Context, cfg *rest.Config, home Home) error

// WithLogFile runs c with its log in logs/controller.log below dataDir, beside the logs of the
// control plane: the terminal is for the person at it. The file is rotated at 20 MB, and three old
// ones are kept.
func WithLogFile(dataDir string, c LoggingController) RunController {
	return func(ctx context.Context, cfg *rest.Config, ready func()) error {
		logs := filepath.Join(dataDir, "logs")
		log := &lumberjack.Logger{Filename: filepath.Join(logs, "controller.log"), MaxSize: 20 /* MB */, MaxBackups: 3}
		home := Home{
			Log: log, LogDir: logs, Certificates: filepath.Join(dataDir, apiDir), WebhookClientCA: controlplane.WebhookClientCA(dataDir),
			Audit: filepath.Join(logs, "audit.log"), Flows: filepath.Join(dataDir, "flows"), Ready: ready,
		}
		return errors.Join(c(ctx, cfg, home), log.Close())
	}
}
