package rules

import (
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func logRules() []rule.Rule {
	logs := []string{"logs"}
	return []rule.Rule{
		{
			ID: "journal", Phase: rule.Caches, Groups: logs, Verb: plan.Remove,
			Paths: []string{"/var/log/journal/*"}, Owner: "systemd-journald",
			Why: "the journal contains everything that the build logged, also secrets; the folder stays, so that the new journal is persistent", Regenerated: "systemd-journald", Source: "virt-sysprep",
		},
		{
			ID: "pod-logs", Phase: rule.Caches, Groups: append(logs, "kubelet"), Verb: plan.Empty,
			Paths: []string{"/var/log/pods", "/var/log/containers", "/var/log/aws-routed-eni", "/var/log/amazon/ssm"}, Owner: "kubelet, VPC CNI, amazon-ssm-agent",
			Why: "the logs of the old cluster's pods would be on every node", Regenerated: "the kubelet", Source: "amazon-eks-ami",
		},
		{
			ID: "login-records", Phase: rule.Caches, Groups: append(logs, "people"), Verb: plan.Remove,
			Paths: []string{"/var/log/wtmp", "/var/log/btmp", "/var/log/lastlog"}, Owner: "login programs, systemd",
			Why:         "the records show who logged in to the builder machine, and from where",
			Regenerated: "systemd-tmpfiles, at boot; without it, the files stay and are emptied", Source: "image-builder, utmp(5)",
			Look: logins,
		},
		{
			ID: "login-databases", Phase: rule.Caches, Groups: append(logs, "people"), Verb: plan.Remove,
			Paths: []string{"/var/log/wtmp.db*", "/var/lib/wtmpdb/*", "/var/lib/lastlog/*"}, Owner: "wtmpdb, lastlog2",
			Why:         "the databases show who logged in to the builder machine, and from where; they are wtmp and lastlog for dates after 2038, and a link to them stays",
			Regenerated: "wtmpdb, pam_lastlog2", Source: "wtmpdb(8), lastlog2(8)",
			Look: removesFiles("it says who logged in to the build machine"),
		},
		{
			ID: "log-files", Phase: rule.Caches, Groups: logs, Verb: plan.Empty,
			Paths: []string{"/var/log/**"}, Owner: "every daemon",
			Why:         "the logs contain the build's logins and cluster endpoints; current files are emptied and keep mode, owner and label, rotated files are removed",
			Regenerated: "every daemon", Source: "virt-sysprep, image-builder",
			Look: logFiles,
		},
	}
}

// rotated are the names that logrotate, journald and savelog give to old logs.
var rotated = rule.Expression(`(\.gz|\.xz|\.bz2|\.zst|\.old|\.\d+|-\d{8}(-\d+)?|\.\d{8})$`)

// logins plans the removal of login records. At shutdown, systemd records the
// end of every getty, but only in existing files. So a file that tmpfiles.d(5)
// creates again at boot is removed, and the captured image has no such record.
func logins(d *rule.Draft) {
	for _, name := range d.Paths {
		verb := plan.Empty
		if madeAtBoot(d, name) {
			verb = plan.Remove
		}
		d.Plan(verb, name, "it says who logged in to the build machine")
	}
}

// madeAtBoot reports whether a configuration of tmpfiles.d(5) creates the file.
func madeAtBoot(d *rule.Draft, name string) (made bool) {
	d.EachLine(d.Glob("/etc/tmpfiles.d/*.conf", "/usr/lib/tmpfiles.d/*.conf"), func(_ string, _ int, line string) {
		w := strings.Fields(line)
		made = made || len(w) > 1 && strings.HasPrefix(w[0], "f") && w[1] == name
	})
	return made
}

// logFiles plans every file below /var/log that no other rule covers.
func logFiles(d *rule.Draft) {
	var others []string
	for _, r := range logRules() {
		if r.Look == nil || !slices.Equal(r.Paths, d.Paths) {
			others = append(others, r.Paths...)
		}
	}
	isSettled := func(name string) bool {
		return rule.Kept(others, name) || slices.ContainsFunc(others,
			func(p string) bool { return rule.Within(strings.TrimSuffix(p, "/*"), name) })
	}
	foreign := d.Walk(func(e host.Entry) error {
		switch {
		case isSettled(e.Path):
			return skipFolder(e)
		case !e.Mode().IsRegular():
			return nil
		}
		verb := plan.Empty
		if rotated().MatchString(path.Base(e.Path)) {
			verb = plan.Remove
		}
		d.Plan(verb, e.Path, "it holds what the build logged")
		return d.Err
	})
	foreign = slices.DeleteFunc(foreign, func(m *host.ForeignMount) bool { return isSettled(m.Path) })
	d.Found(rule.ForeignFindings(d.Host, foreign)...)
}

func cacheRules() []rule.Rule {
	caches := []string{"caches"}
	return []rule.Rule{
		{
			ID: "ldconfig-cache", Phase: rule.Caches, Verb: plan.Remove, Groups: caches,
			Paths: []string{"/var/cache/ldconfig/aux-cache"}, Owner: "ldconfig",
			Why:         "the file has inode numbers and times of the build, so two builds from the same packages differ",
			Regenerated: "ldconfig", Source: "https://wiki.debian.org/ReproducibleInstalls",
		},
		{
			ID: "temporary-files", Phase: rule.Caches, Groups: caches, Verb: plan.Empty,
			Paths: []string{"/tmp", "/var/tmp"}, Owner: "anybody",
			Why: "temporary folders keep scripts, keys and metadata tokens of the build", Regenerated: "nothing", Source: "amazon-eks-ami #1080",
		},
		{
			ID: "crash-dumps", Phase: rule.Caches, Groups: append(caches, "secrets"), Verb: plan.Remove,
			Paths: []string{"/var/crash/*", "/var/lib/systemd/coredump/*", "/var/lib/systemd/pstore/*", "/var/lib/apport/coredump/*", "/var/spool/abrt/*", "/var/spool/abrt-upload/*"}, Owner: "systemd-coredump, systemd-pstore, kdump, apport, ABRT",
			Why: "crash dumps contain the memory of the build's programs, with their secrets", Regenerated: "nothing", Source: "virt-sysprep",
		},
		{
			ID: "spools", Phase: rule.Caches, Groups: caches, Verb: plan.Remove,
			Paths: []string{
				"/var/spool/mail/*", "/var/mail/*", "/var/spool/postfix/active/*", "/var/spool/postfix/bounce/*", "/var/spool/postfix/corrupt/*",
				"/var/spool/postfix/defer/*", "/var/spool/postfix/deferred/*", "/var/spool/postfix/flush/*", "/var/spool/postfix/hold/*",
				"/var/spool/postfix/incoming/*", "/var/spool/postfix/maildrop/*", "/var/spool/postfix/saved/*", "/var/spool/postfix/trace/*",
				"/var/spool/exim4/input/*", "/var/spool/exim4/msglog/*", "/var/spool/mqueue/*", "/var/spool/clientmqueue/*",
				"/var/spool/at/" + atJobs, "/var/spool/atjobs/" + atJobs, "/var/spool/cron/atjobs/" + atJobs, "/var/spool/cron/atspool/*",
				"/var/spool/at/spool/*", "/var/spool/atspool/*", "/var/spool/cron/crontabs/*", "/var/spool/cron/tabs/*", "/var/spool/cron/lastrun/*", "/var/spool/fcron/*",
				"/var/lib/dovecot/*", "/var/lib/postfix/*", "/var/spool/postfix/pid/*",
			}, Owner: "mail, at, crontab",
			Why:         "every node would run the jobs of the build's accounts and keep their mail; jobs of the image belong in /etc/cron.d",
			Regenerated: "nothing; the file .SEQ stays, because at needs it to accept jobs", Source: "virt-sysprep",
		},
		{
			ID: "crontabs", Phase: rule.Caches, Groups: append(caches, "people"), Verb: plan.Remove,
			Paths: []string{"/var/spool/cron/[^.]*"},
			Keep: []string{
				"/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron/lastrun", "/var/spool/cron/atjobs", "/var/spool/cron/atspool",
			}, Owner: "crontab, where each account has a file in /var/spool/cron",
			Why:         "every node would run the jobs of the build's accounts; jobs of the image belong in /etc/cron.d",
			Regenerated: "nothing", Source: "virt-sysprep: cron-spool; crontab(1) of cronie",
		},
		{
			ID: "debconf-passwords", Phase: rule.Caches, Groups: []string{"secrets", "packages"}, Verb: plan.Empty,
			Paths: []string{"/var/cache/debconf/passwords.dat"}, Owner: "debconf",
			Why: "the file has the answers to the passwords that packages asked for", Regenerated: "debconf, when a package needs an answer", Source: "debconf.conf(5)",
		},
		{
			ID: "login-failures", Phase: rule.Caches, Groups: []string{"people", "logs"}, Verb: plan.Remove,
			Paths: []string{"/var/lib/faillock/*", "/var/log/faillock/*", "/var/log/tallylog", "/var/run/faillock/*", "/var/run/sepermit/*", "/var/run/console/*", "/var/lib/fprint/*", "/var/lib/AccountsService/users/*"}, Owner: "PAM, fprintd, AccountsService",
			Why: "the files name the accounts that logged in to the builder machine, and an account could start locked", Regenerated: "PAM, at the next login", Source: "virt-sysprep: pam-data, logfiles",
		},
		{
			ID: "process-accounting", Phase: rule.Caches, Groups: []string{"people", "logs"}, Verb: plan.Empty,
			Paths: []string{"/var/account/pacct*"}, Owner: "acct, psacct",
			Why: "the records name every command that an account ran on the builder machine; the files stay, because accounting needs them", Regenerated: "the kernel", Source: "virt-sysprep: pacct-log",
		},
		{
			ID: "home-caches", Phase: rule.Caches, Groups: caches, Verb: plan.Remove,
			Paths: []string{
				"~/.cache", "~/.wget-hsts", "~/.lesshst", "~/.sudo_as_admin_successful", "~/.ansible/tmp", "~/.ansible_async", "~/.ansible/cp", "~/.ansible/pull", "~/.ansible/galaxy_cache",
				"~/.local/share/recently-used.xbel", "/var/lib/sudo/lectured/*", "/var/db/sudo/lectured/*", "/var/lib/plocate/plocate.db", "/var/lib/mlocate/mlocate.db", "/var/cache/locate/locatedb",
				"/var/lib/toolbox/*",
			}, Owner: "anybody",
			Why: "the files show what the people who built the image did", Regenerated: "nothing", Source: "virt-sysprep",
		},
		{
			ID: "timestamps", Phase: rule.Caches, Groups: append(caches, "identity"), Verb: plan.Remove,
			Paths: []string{"/var/lib/systemd/timers/stamp-*", "/var/lib/logrotate/status", "/var/lib/logrotate/logrotate.status", "/var/lib/logrotate.status", "/var/spool/anacron/*"}, Owner: "systemd, logrotate, anacron",
			Why: "a node would skip a job because the builder machine ran it recently", Regenerated: "systemd, logrotate, anacron", Source: "virt-sysprep",
		},
	}
}

// atJobs matches the jobs of at(1): the letter of the queue, then digits.
const atJobs = "[a-zA-Z=]0*"
