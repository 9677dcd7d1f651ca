package scrub

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// buildRules are the rows of what a build and a run leave: logs, caches,
// temporary files.
func buildRules() []Rule {
	logs, caches := []string{"logs"}, []string{"caches"}
	return []Rule{
		{
			ID: "temporary-files", Phase: Caches, Groups: caches, Verb: plan.Empty,
			Paths: []string{"/tmp", "/var/tmp"}, Owner: "anybody",
			Why: "scripts, keys and saved metadata tokens of the build", Regenerated: "nothing", Source: "amazon-eks-ami #1080",
		},
		{
			ID: "crash-dumps", Phase: Caches, Groups: append(caches, "secrets"), Verb: plan.Remove,
			Paths: []string{"/var/crash/*", "/var/lib/systemd/coredump/*", "/var/lib/systemd/pstore/*", "/var/lib/apport/coredump/*", "/var/spool/abrt/*", "/var/spool/abrt-upload/*"}, Owner: "systemd-coredump, systemd-pstore, kdump, apport, ABRT",
			Why: "memory of the build's programs", Regenerated: "nothing", Source: "virt-sysprep",
		},
		{
			ID: "spools", Phase: Caches, Groups: caches, Verb: plan.Remove,
			Paths: []string{
				"/var/spool/mail/*", "/var/mail/*", "/var/spool/postfix/active/*", "/var/spool/postfix/bounce/*", "/var/spool/postfix/corrupt/*",
				"/var/spool/postfix/defer/*", "/var/spool/postfix/deferred/*", "/var/spool/postfix/flush/*", "/var/spool/postfix/hold/*",
				"/var/spool/postfix/incoming/*", "/var/spool/postfix/maildrop/*", "/var/spool/postfix/saved/*", "/var/spool/postfix/trace/*",
				"/var/spool/exim4/input/*", "/var/spool/exim4/msglog/*", "/var/spool/mqueue/*", "/var/spool/clientmqueue/*",
				"/var/spool/at/" + atJobs, "/var/spool/atjobs/" + atJobs, "/var/spool/cron/atjobs/" + atJobs, "/var/spool/cron/atspool/*",
				"/var/spool/cron/crontabs/*", "/var/spool/cron/tabs/*", "/var/spool/cron/root", "/var/spool/cron/lastrun/*",
			}, Owner: "mail, at, crontab",
			Why:         "mail and jobs of the build's accounts; jobs of the image belong into /etc/cron.d",
			Regenerated: "nothing; at's .SEQ stays, without which it accepts no job", Source: "virt-sysprep",
		},
		{
			ID: "home-caches", Phase: Caches, Groups: caches, Verb: plan.Remove,
			Paths: []string{
				"~/.cache", "~/.wget-hsts", "~/.lesshst", "~/.sudo_as_admin_successful", "~/.ansible/tmp", "~/.ansible/cp", "~/.ansible/galaxy_cache",
				"~/.local/share/recently-used.xbel", "/var/lib/sudo/lectured/*", "/var/db/sudo/lectured/*",
			}, Owner: "anybody",
			Why: "what the people who built the image did", Regenerated: "nothing", Source: "virt-sysprep",
		},
		{
			ID: "timestamps", Phase: Caches, Groups: append(caches, "identity"), Verb: plan.Remove,
			Paths: []string{"/var/lib/systemd/timers/stamp-*", "/var/lib/logrotate/status", "/var/lib/logrotate/logrotate.status", "/var/lib/logrotate.status", "/var/spool/anacron/*"}, Owner: "systemd, logrotate, anacron",
			Why: "when the build machine last ran its jobs", Regenerated: "systemd, logrotate, anacron", Source: "virt-sysprep",
		},
		{
			ID: "journal", Phase: Caches, Groups: logs, Verb: plan.Remove,
			Paths: []string{"/var/log/journal/*"}, Owner: "systemd-journald",
			Why: "everything the build logged, secrets too; the folder stays, so that the new journal is persistent", Regenerated: "systemd-journald", Source: "virt-sysprep",
		},
		{
			ID: "pod-logs", Phase: Caches, Groups: append(logs, "kubelet"), Verb: plan.Empty,
			Paths: []string{"/var/log/pods", "/var/log/containers", "/var/log/aws-routed-eni", "/var/log/amazon/ssm"}, Owner: "kubelet, VPC CNI, amazon-ssm-agent",
			Why: "what the old cluster's pods logged", Regenerated: "the kubelet", Source: "amazon-eks-ami",
		},
		{
			ID: "login-records", Phase: Caches, Groups: append(logs, "people"), Verb: plan.Remove,
			Paths: loginRecords, Owner: "login programs, systemd",
			Why:         "who logged in to the build machine, from where",
			Regenerated: "systemd-tmpfiles, at boot; where it does not, the files are emptied and stay", Source: "image-builder, utmp(5)",
			Find: logins,
		},
		{
			ID: "login-databases", Phase: Caches, Groups: append(logs, "people"), Verb: plan.Remove,
			Paths: loginDatabases, Owner: "wtmpdb, lastlog2",
			Why:         "who logged in to the build machine, from where: wtmp and lastlog beyond the year 2038; a link to where they are stays",
			Regenerated: "wtmpdb, pam_lastlog2", Source: "wtmpdb(8), lastlog2(8)",
			Find: loginDatabaseFiles,
		},
		{
			ID: "log-files", Phase: Caches, Groups: logs, Verb: plan.Empty,
			Paths: []string{"/var/log/**"}, Owner: "every daemon",
			Why:         "what the build logged, cluster endpoints and logins too; current files are emptied and keep mode, owner and label, rotated ones go",
			Regenerated: "every daemon", Source: "virt-sysprep, image-builder",
			Find: logFiles,
		},
	}
}

// rotated are the names that logrotate, journald and savelog give old logs.
var rotated = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(\.gz|\.xz|\.bz2|\.zst|\.old|\.\d+|-\d{8}(-\d+)?|\.\d{8})$`)
})

// loginRecords are utmp(5)'s files on disk.
var loginRecords = []string{"/var/log/wtmp", "/var/log/btmp", "/var/log/lastlog"}

// loginDatabases are SQLite's files; Debian links the first from its folder.
var loginDatabases = []string{"/var/log/wtmp.db*", "/var/lib/wtmpdb/*", "/var/lib/lastlog/*"}

func loginDatabaseFiles(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for _, pattern := range loginDatabases {
		names, err := glob(h, pattern)
		if err != nil {
			return plan.Answer{}, err
		}
		for _, name := range names {
			st, err := h.Files.Lstat(name)
			if isMissing(err) || err == nil && !st.Mode().IsRegular() {
				continue
			}
			if err != nil {
				return plan.Answer{}, err
			}
			answer.Act(removeAction(h, name, "it says who logged in to the build machine"))
		}
	}
	return answer, nil
}

// atJobs are at(1)'s jobs: the queue's letter and then numbers.
const atJobs = "[a-zA-Z=]0*"

// logins plans the login records. systemd notes the end of every getty when the
// machine shuts down, but only into a file that is there: one that is made
// again at boot is removed, so that the captured image has none.
func logins(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for _, name := range loginRecords {
		verb := plan.Empty
		made, err := madeAtBoot(h, name)
		if err != nil {
			return plan.Answer{}, err
		}
		if made {
			verb = plan.Remove
		}
		a, err := planPath(h, verb, name, "it says who logged in to the build machine")
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	return answer, nil
}

// madeAtBoot says whether a configuration of tmpfiles.d(5) makes the file.
func madeAtBoot(h *host.Host, name string) (bool, error) {
	for _, dir := range []string{"/etc/tmpfiles.d", "/usr/lib/tmpfiles.d"} {
		files, err := glob(h, dir+"/*.conf")
		if err != nil {
			return false, err
		}
		for _, f := range files {
			text, err := h.Content(f)
			if err != nil {
				return false, err
			}
			for line := range strings.Lines(string(text)) {
				if w := strings.Fields(line); len(w) > 1 && strings.HasPrefix(w[0], "f") && w[1] == name {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// logFiles plans every file below /var/log that no other rule settles.
func logFiles(ctx context.Context, h *host.Host) (plan.Answer, error) {
	settled := append([]string{"/var/log/journal", "/var/log/pods", "/var/log/containers", "/var/log/aws-routed-eni", "/var/log/amazon/ssm"}, loginRecords...)
	isSettled := func(name string) bool {
		return slices.ContainsFunc(settled, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
	}
	var answer plan.Answer
	foreign, err := h.Files.Walk(ctx, "/var/log", "/var/log", func(e host.Entry, err error) error {
		if err != nil {
			return fmt.Errorf("looking for logs: %w", err)
		}
		if isSettled(e.Path) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Mode().IsRegular() || kept(loginDatabases, e.Path) {
			return nil
		}
		verb := plan.Empty
		if rotated().MatchString(path.Base(e.Path)) {
			verb = plan.Remove
		}
		a, err := planPath(h, verb, e.Path, "it holds what the build logged")
		answer.Add(a)
		return err
	})
	foreign = slices.DeleteFunc(foreign, func(m *host.ForeignMount) bool { return isSettled(m.Path) })
	answer.Findings = append(answer.Findings, foreignFindings(h, foreign)...)
	return answer, err
}

// regularFile plans the removal of a file, but not of a link: a link says that
// something else generates it.
func regularFile(name string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(_ context.Context, h *host.Host) (plan.Answer, error) {
		st, err := h.Files.Lstat(name)
		if err != nil || !st.Mode().IsRegular() {
			return plan.Answer{}, ignoreMissing(err)
		}
		return planPath(h, plan.Remove, name, "it is the build machine's own")
	}
}

// unusedSwapFiles plans the removal of swap files. One in use is reported: the
// memory it holds has to go somewhere first.
func unusedSwapFiles(_ context.Context, h *host.Host) (plan.Answer, error) {
	active := ""
	if h.IsLive() {
		text, err := h.Content("/proc/swaps")
		if err != nil {
			return plan.Answer{}, err
		}
		active = string(text)
	}
	var answer plan.Answer
	for _, name := range swapFiles {
		st, err := h.Files.Lstat(name)
		if isMissing(err) || err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return plan.Answer{}, err
		}
		if strings.Contains(active, name+" ") {
			answer.Find(name, "it is in use as swap: run swapoff "+name+" and take it out of /etc/fstab")
			continue
		}
		a, err := planPath(h, plan.Remove, name, "it holds memory of the build")
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	table, err := fstabWithoutSwapFiles(h, active)
	answer.Add(table)
	return answer, err
}

// swapFiles are the usual names, and that of EC2's hibernation agent.
var swapFiles = []string{"/swapfile", "/swap.img", "/hibfile.sys", "/swap-hibinit", "/swap"}

// fstabWithoutSwapFiles plans fstab(5) without the lines of swap files that go:
// a boot would wait for them.
func fstabWithoutSwapFiles(h *host.Host, active string) (plan.Answer, error) {
	const name = "/etc/fstab"
	text, err := h.Content(name)
	if err != nil {
		return plan.Answer{}, err
	}
	var left strings.Builder
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 2 && f[2] == "swap" && slices.Contains(swapFiles, f[0]) && !strings.Contains(active, f[0]+" ") {
			continue
		}
		left.WriteString(line)
	}
	if left.Len() == len(text) {
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: "it names a swap file that goes",
		Do: func(context.Context, plan.Progress) error {
			return h.Files.WriteFile(name, []byte(left.String()), attr)
		}}), nil
}
