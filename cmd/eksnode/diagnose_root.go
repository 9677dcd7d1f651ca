package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
)

// logFolder is where machines keep their logs.
const logFolder = "/var/log"

type rootLog struct {
	path    string // as the machine names it
	changed time.Time
}

// rootLogs searches the logs in an image root, oldest first, and the journal. Nothing
// in the root runs, and no link leads out of it.
func rootLogs(ctx context.Context, s *diagnose.Search, root string) error {
	h, err := openHost(root)
	if err != nil {
		return err
	}
	defer h.Close()
	wrong := s.Machine(ctx, h, root)
	logs, journals, err := findLogs(ctx, h)
	if err != nil {
		return errors.Join(wrong, fmt.Errorf("reading the logs below %s: %w", root, err))
	}
	before := s.Report().Lines
	errs := []error{wrong}
	for _, l := range logs {
		errs = append(errs, rootFile(h, s, filepath.Join(root, l.path), l.path))
	}
	if len(journals) > 0 {
		errs = append(errs, s.Journals(filepath.Join(root, logFolder, "journal"), journals...))
	}
	if s.Report().Lines == before && errors.Join(errs...) == nil {
		return fmt.Errorf("reading the logs below %s: %s contains no readable log; without /var/log/journal, a node keeps its journal in memory only", root, logFolder)
	}
	return errors.Join(errs...)
}

// findLogs lists the logs of an image root, oldest first, and the paths of its
// journal files on this machine.
func findLogs(ctx context.Context, h *host.Host) (logs []rootLog, journals []string, err error) {
	if _, err := h.Files.Stat(logFolder); err != nil {
		return nil, nil, fmt.Errorf("is the node's disk mounted there? %w", err)
	}
	visit := func(e host.Entry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.Mode().IsRegular() || e.Size() == 0:
		case strings.HasSuffix(e.Path, ".journal") || strings.HasSuffix(e.Path, ".journal~"):
			real, err := h.Files.Real(e.Path)
			if err != nil {
				return err
			}
			journals = append(journals, filepath.Join(h.Root(), real))
		default:
			logs = append(logs, rootLog{e.Path, e.ModTime()})
		}
		return nil
	}
	foreign, err := h.Files.Walk(ctx, logFolder, logFolder, visit)
	for _, m := range foreign {
		err = errors.Join(err, fmt.Errorf("%s is not a part of the image: %s", m.Path, m.Why))
	}
	slices.SortStableFunc(logs, func(a, b rootLog) int {
		return cmp.Or(a.changed.Compare(b.changed), strings.Compare(a.path, b.path))
	})
	return logs, journals, err
}

func rootFile(h *host.Host, s *diagnose.Search, shown, name string) error {
	f, err := h.Files.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) { // it was rotated meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer f.Close()
	return s.Member(shown, strings.TrimPrefix(name, "/"), f)
}

func isThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// journalReader returns a function that reads journal files with this machine's
// journalctl, or nil without one.
func journalReader(ctx context.Context) diagnose.Journal {
	h, err := host.Live()
	if err != nil || !h.HasCommand("journalctl") {
		return nil // the search says so if it needs one
	}
	return func(files ...string) io.Reader {
		argv := []string{"journalctl", "--no-pager", "--all", "--output=short-precise"}
		for _, file := range files {
			argv = append(argv, "--file="+file)
		}
		return outputOfCommand(ctx, h, argv)
	}
}

// outputOfCommand returns a command's output as a stream: a journal may have
// gigabytes.
func outputOfCommand(ctx context.Context, h *host.Host, argv []string) io.Reader {
	text, to := io.Pipe()
	go func() {
		_, err := h.Run(ctx, host.Command{Argv: argv, Stdout: to})
		to.CloseWithError(err)
	}()
	return text
}
