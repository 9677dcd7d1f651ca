package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// selection are the flags that scrub and audit share.
type selection struct {
	spec  scrub.Spec
	local scrub.Local
	root  string
	out   output
}

// check reads the rule file, and checks the flags.
func (s *selection) check(mode scrub.Mode) (err error) {
	if s.spec.Own, err = s.local.Rules(); err != nil {
		return err
	}
	return s.spec.Validate(mode, distros.ScrubRules())
}

// flags makes the flags; with chosen names, of those options alone.
func (s *selection) flags(cmd *cobra.Command, chosen ...string) {
	options(cmd.Flags(), &s.spec, chosen...)
	options(cmd.Flags(), &s.local)
	s.out.flags(cmd)
}

func (s *selection) rootFlag(cmd *cobra.Command) {
	bind(cmd, targets{"root": &s.root})
}

func (s *selection) auditFlags(cmd *cobra.Command) {
	s.spec.Node = scrub.NodeAuto
	s.flags(cmd, "distro", "rules", "skip_rules", "node")
}

func (s *selection) begin(cmd *cobra.Command, command agent.Command, looks bool) error {
	s.out.rules = slices.Concat(scrub.Table(), distros.ScrubRules())
	for _, own := range s.spec.Own {
		s.out.rules = append(s.out.rules, own.AsOwn())
	}
	return s.out.begin(cmd, command, s.root, looks)
}

func (s *selection) run(cmd *cobra.Command, h *host.Host, command agent.Command, dry bool, sink plan.Sink) plan.Report {
	var r plan.Report // has the error too
	if command == agent.Audit {
		r, _ = eksnode.Audit(cmd.Context(), h, s.spec, eksnode.Options{Sink: sink})
	} else {
		r, _ = eksnode.Scrub(cmd.Context(), h, s.spec, eksnode.Options{DryRun: dry, Sink: sink})
	}
	return r
}

func scrubCommand() *cobra.Command {
	var s selection
	s.spec.Audit = scrub.AuditFails
	var yes, dryRun, list bool
	cmd := newCommand("scrub", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		var unknown error // an audit reports it in the format of --output
		if s.spec.Distro != "" {
			_, unknown = distros.ByID(s.spec.Distro)
		}
		if list {
			without := notWith(cmd, "list", "yes", "dry-run", "root", "report", "verbose", "audit", "hash", "node",
				"wipe-free-space")
			if err := errors.Join(unknown, without, s.check(scrub.ToList)); err != nil {
				return err
			}
			return s.list(cmd)
		}
		if err := errors.Join(unknown, s.check(scrub.ToScrub)); err != nil {
			return err
		}
		if err := s.begin(cmd, agent.Scrub, dryRun); err != nil {
			return err
		}
		h, err := openHost(s.root)
		if err != nil {
			return err
		}
		defer h.Close()
		if dryRun {
			return s.out.finish(cmd, s.run(cmd, h, agent.Scrub, true, nil))
		}
		if !yes {
			if err := s.confirm(cmd, h); err != nil {
				return err
			}
		}
		sink, stop := s.out.watch(cmd, agent.Scrub)
		r := s.run(cmd, h, agent.Scrub, false, sink)
		stop()
		return s.out.finish(cmd, r)
	})
	s.rootFlag(cmd)
	s.flags(cmd)
	bind(cmd, targets{"yes": &yes, "list": &list, "dry-run": &dryRun})
	return cmd
}

// confirm prints the plan of the scrub and asks the person at the terminal.
// Without a terminal it fails.
func (s *selection) confirm(cmd *cobra.Command, h *host.Host) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return errors.New("a scrub removes files for good: confirm with --yes, or see the plan with --dry-run")
	}
	r := s.run(cmd, h, agent.Scrub, true, nil)
	if err := answer(cmd, "text", r, func(p *printer) { p.report(r, s.out.verbose) }); err != nil {
		return err
	}
	if r.Result == plan.Failure {
		return exitError(1)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Scrub %s? Type yes: ", h.Root())
	answer, err := bufio.NewReader(standardInput(cmd)).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		fmt.Fprintln(cmd.ErrOrStderr(), "eksnode: nothing was changed")
		return exitError(1)
	}
	return nil
}

// diskAudit audits a disk; nil where none is given.
type diskAudit func(*cobra.Command, scrub.Spec) (plan.Report, error)

func auditCommand() *cobra.Command {
	var s selection
	var chosen func(*cobra.Command) (diskAudit, error)
	cmd := newCommand("audit", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		disk, err := chosen(cmd)
		if err := errors.Join(err, s.check(scrub.ToAudit)); err != nil {
			return err
		}
		if err := s.begin(cmd, agent.Audit, true); err != nil {
			return err
		}
		sink, stop := s.out.watch(cmd, agent.Audit)
		waits := waiting{sink}
		if disk != nil {
			waits.Begin("the audit of the disk", "", 0)
			r, err := disk(cmd, s.spec)
			stop()
			if err != nil {
				return err
			}
			return s.out.finish(cmd, r)
		}
		h, err := openHost(s.root)
		if err != nil {
			stop()
			return err
		}
		defer h.Close()
		r := s.run(cmd, h, agent.Audit, false, waits)
		stop()
		return s.out.finish(cmd, r)
	})
	s.rootFlag(cmd)
	s.auditFlags(cmd)
	chosen = diskFlags(cmd)
	return cmd
}

// listed is a rule in the output of --list.
type listed struct {
	scrub.Rule
	Distro string   `json:"distro,omitempty"`
	Paths  []string `json:"paths,omitempty"`
}

// list prints the selected rules: those of the table, of --distro or of every distribution,
// and of --rules-file.
func (s *selection) list(cmd *cobra.Command) error {
	if s.out.format != "text" && s.out.format != "json" {
		return fmt.Errorf("--output: --list prints text or json, not %s", s.out.format)
	}
	var all []listed
	add := func(distro string, rules []scrub.Rule) {
		for _, r := range rules {
			if s.spec.Chooses(r) {
				all = append(all, listed{r, distro, r.Paths})
			}
		}
	}
	add("", scrub.Table())
	for _, d := range distros.All() {
		if s.spec.Distro == "" || s.spec.Distro == d.ID {
			add(d.ID, d.ScrubRules())
		}
	}
	for _, own := range s.spec.Own {
		add("", []scrub.Rule{own.AsOwn()})
	}
	return answer(cmd, s.out.format, all, func(p *printer) {
		rows := [][]string{{"RULE", "PHASE", "ACTION", "GROUPS", "PATHS"}}
		for _, r := range all {
			name := r.ID
			if r.Distro != "" {
				name += " (" + r.Distro + ")"
			}
			groups, paths := strings.Join(r.Groups, ","), strings.Join(r.Paths, " ")
			rows = append(rows, []string{name, string(r.Phase), string(r.Verb), groups, paths})
		}
		p.table(rows)
	})
}
