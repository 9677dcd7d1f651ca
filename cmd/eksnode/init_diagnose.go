package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/units"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// diagnoseCommand says why a node did not join: on the node, or on a desk with
// its logs.
func diagnoseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diagnose [LOG…]",
		Short: "Say why this node did not join, or why another did not, given its logs",
		Long: `Diagnose looks for known causes in what the kubelet, containerd and the first
boot said: in this machine's journal, or in the files that are named ("-" is the
standard input). It exits with 0 when it finds none and 1 when it finds some.`,
		Example: "  eksnode diagnose\n  journalctl --unit kubelet | eksnode diagnose -\n  eksnode diagnose kubelet.log cloud-init-output.log",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			logs, err := namedLogs(args, standardInput(cmd))
			if len(args) == 0 {
				logs, err = ownLogs(cmd.Context())
			}
			if err != nil {
				return err
			}
			found, err := diagnose.Logs(logs...)
			if err != nil {
				return err
			}
			if err := diagnose.Print(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			if len(found) > 0 {
				return exitError(1)
			}
			return nil
		},
	}
}

func namedLogs(names []string, in io.Reader) ([]diagnose.Log, error) {
	var logs []diagnose.Log
	for _, name := range names {
		if name == "-" {
			logs = append(logs, diagnose.Log{Name: "standard input", Text: in})
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		logs = append(logs, diagnose.Log{Name: name, Text: bytes.NewReader(text)})
	}
	return logs, nil
}

// cloudInitLog is where the output of user data scripts goes.
const cloudInitLog = "/var/log/cloud-init-output.log"

// ownLogs are those of this machine since it booted.
func ownLogs(ctx context.Context) ([]diagnose.Log, error) {
	h, err := host.Live()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if !h.HasCommand("journalctl") {
		return nil, errors.New("this machine has no journal; name the logs of a node")
	}
	state, err := ownState(h)
	if err != nil {
		return nil, err
	}
	logs := []diagnose.Log{{Name: "machine", Text: strings.NewReader(state)}}
	for _, unit := range append(units.Units(), "containerd.service", "kubelet.service") {
		logs = append(logs, diagnose.Log{Name: unit, Text: journal(ctx, h, unit)})
	}
	text, err := h.Content(cloudInitLog)
	if err != nil {
		return nil, fmt.Errorf("reading the output of user data: %w", err)
	}
	return append(logs, diagnose.Log{Name: cloudInitLog, Text: bytes.NewReader(text)}), nil
}

// journal is a unit's since the machine booted, read while it is looked at: a
// node that has run for long has gigabytes.
func journal(ctx context.Context, h *host.Host, unit string) io.Reader {
	text, to := io.Pipe()
	go func() {
		_, err := h.Run(ctx, host.Command{
			Argv:   []string{"journalctl", "--boot", "--no-pager", "--quiet", "--output=cat", "--unit=" + unit},
			Stdout: to,
		})
		to.CloseWithError(err)
	}()
	return text
}

// ownState says what the machine is like in the words of the programs that
// would trip over it.
func ownState(h *host.Host) (string, error) {
	var lines []string
	for _, folder := range []string{"/var/lib/containerd", "/var/lib/kubelet", "/"} {
		space, err := h.Files.Space(folder)
		if err != nil {
			return "", fmt.Errorf("looking at %s: %w", folder, err)
		}
		if space.FreeBytes < 64<<20 {
			lines = append(lines, fmt.Sprintf("%s: no space left on device (%d bytes are free)", folder, space.FreeBytes))
		}
	}
	swaps, err := h.Content("/proc/swaps")
	if err != nil {
		return "", fmt.Errorf("looking for swap: %w", err)
	}
	if _, used, _ := strings.Cut(strings.TrimSpace(string(swaps)), "\n"); used != "" {
		lines = append(lines, "running with swap on is not supported: "+strings.Join(strings.Fields(used), " "))
	}
	return strings.Join(lines, "\n"), nil
}
