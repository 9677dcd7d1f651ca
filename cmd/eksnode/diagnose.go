package main

import (
	"bytes"
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

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/bootunits"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// diagnoseCommand reports why a node did not join. It runs on the node, or on a
// workstation with the node's logs.
func diagnoseCommand() *cobra.Command {
	var output, root string
	var instances consoles
	cmd := newCommand("diagnose [LOG…]", cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error {
		if err := instances.check(cmd, args); err != nil {
			return err
		}
		s := diagnose.NewSearch(cmd.Context()).WithJournal(journalReader(cmd.Context())).WithUserData(checkUserData)
		var wrong error
		switch {
		case cmd.Flags().Changed("root"):
			wrong = rootLogs(cmd.Context(), s, root)
		case len(args) == 0:
			wrong = ownLogs(cmd.Context(), s)
		}
		for _, name := range args {
			wrong = errors.Join(wrong, searchArgument(cmd, s, &instances, name))
		}
		r := s.Report()
		if r.Lines > 0 || len(r.Findings) > 0 {
			found := printDiagnosis(cmd, r, output)
			if wrong != nil && errors.Is(found, exitError(1)) {
				found = nil // what could not be read decides the exit code
			}
			wrong = errors.Join(found, wrong)
		}
		return wrong
	})
	bind(cmd, targets{"root": &root})
	formatFlag(cmd, &output, "text", "json", "sarif", "junit")
	instances.flags(cmd)
	return cmd
}

func searchArgument(cmd *cobra.Command, s *diagnose.Search, instances *consoles, name string) error {
	switch {
	case name == "-":
		return s.Input("standard input", standardInput(cmd))
	case instances.is(name):
		return instances.search(cmd, s, name)
	default:
		return s.File(name)
	}
}

// diagnosis is the output of --output json.
type diagnosis struct {
	// Result is found (a known cause), joined, or unknown.
	Result string `json:"result"`
	diagnose.Report
	// FirstFailure is the line that says why something failed, if no cause is certain,
	// and Collect how to collect more logs, if the result is unknown.
	FirstFailure *diagnose.Failure `json:"first_failure,omitempty"`
	Collect      []string          `json:"collect,omitempty"`
}

func printDiagnosis(cmd *cobra.Command, r diagnose.Report, output string) error {
	d := diagnosis{Result: r.Result(), Report: r, FirstFailure: r.Unexplained()}
	d.Findings = append([]diagnose.Finding{}, r.Findings...)
	if d.Result == diagnose.Unknown {
		d.Collect = r.Collect()
	}
	var list []plan.Case
	for _, f := range r.Findings {
		list = append(list, plan.Case{
			ID: f.Rule.ID, About: plan.About{Page: diagnose.Pages + "#" + f.Rule.ID}, Level: plan.Fails,
			Text: fmt.Sprintf("%s (%s: %s)", f.Rule.Cause, f.Certainty, f.Why),
			Seen: f.Evidence, Remedy: f.Rule.Remedy, Commands: f.Rule.Commands,
		})
	}
	if len(list) == 0 {
		list = []plan.Case{{ID: "none", Name: "known causes", About: plan.About{Page: "troubleshooting.md"},
			Text: d.Result + ": no known cause was found"}}
	}
	return judge("diagnose", list, d, func(p *printer) { p.err = r.Print(p.w) }).print(cmd, output)
}

// cloudInitLog contains the output of user data scripts.
const cloudInitLog = "/var/log/cloud-init-output.log"

// ownLogs searches this machine's logs since boot.
func ownLogs(ctx context.Context, s *diagnose.Search) error {
	h, err := host.Live()
	if err != nil {
		return err
	}
	defer h.Close()
	if !h.HasCommand("journalctl") {
		return errors.New("this machine has no journal; name the logs of a node")
	}
	errs := []error{ownState(h, s)}
	if os.Geteuid() == 0 { // others may not read all files
		errs = append(errs, s.Machine(ctx, h, ""))
	}
	text, err := h.Content(cloudInitLog)
	if err != nil {
		errs = append(errs, fmt.Errorf("reading the output of user data: %w", err))
	}
	for _, unit := range append(bootunits.Units(), "containerd.service", "kubelet.service") {
		command := []string{"journalctl", "--boot", "--no-pager", "--quiet", "--output=cat", "--unit=" + unit}
		errs = append(errs, s.Log(diagnose.Log{Name: unit, Text: outputOfCommand(ctx, h, command)}))
	}
	errs = append(errs, s.Log(diagnose.Log{Name: cloudInitLog, Text: bytes.NewReader(text)}))
	if s.Report().Lines == 0 {
		errs = append(errs, errors.New("this machine's logs have no lines since boot; run as root, or name the logs "+
			"of a node"))
	}
	return errors.Join(errs...)
}

// ownState looks for full file systems and swap.
func ownState(h *host.Host, s *diagnose.Search) error {
	seen := map[host.Space]bool{} // a folder of the same file system says the same
	for _, folder := range []string{"/", "/var", "/var/lib/kubelet", "/var/lib/containerd"} {
		space, err := h.Files.Space(folder)
		fact := fmt.Sprintf("%s has %s of free space", folder, show.Size(int64(space.AvailableBytes)))
		if space.NoInodes {
			fact += " and no free inode"
		}
		full := space.AvailableBytes < 64<<20 || space.NoInodes
		if err == nil && full && !space.ReadOnly && !seen[space] { // what is read-only is full by design
			err = s.Observe("disk-full", fact)
		}
		if seen[space] = true; err != nil {
			return fmt.Errorf("looking at %s: %w", folder, err)
		}
	}
	swaps, err := h.Content("/proc/swaps")
	if err != nil {
		return fmt.Errorf("looking for swap: %w", err)
	}
	if _, used, _ := strings.Cut(strings.TrimSpace(string(swaps)), "\n"); used != "" {
		return s.Observe("swap", "/proc/swaps: "+strings.Join(strings.Fields(used), " "))
	}
	return nil
}

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
		return fmt.Errorf("reading the logs below %s: %s contains no readable log; without /var/log/journal, a node "+
			"keeps its journal in memory only", root, logFolder)
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
