package up

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/client-go/rest"
)

// LoggingController is a RunController that writes what it has to say to log.
type LoggingController func(ctx context.Context, cfg *rest.Config, log io.Writer) error

// WithLogFile runs c with its log in logs/controller.log below dataDir, beside those of the control plane: the terminal is for the
// person at it. The file is rotated at 20 MB, and three old ones are kept.
func WithLogFile(dataDir string, c LoggingController) RunController {
	return func(ctx context.Context, cfg *rest.Config) error {
		log := &lumberjack.Logger{Filename: filepath.Join(dataDir, "logs", "controller.log"), MaxSize: 20 /* MB */, MaxBackups: 3}
		return errors.Join(c(ctx, cfg, log), log.Close())
	}
}
