package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// cacheRules are the rules for caches and temporary files.
func cacheRules() []Rule {
	caches := []string{"caches"}
	return []Rule{
		{
			ID: "temporary-files", Phase: Caches, Groups: caches, Verb: plan.Empty,
			Paths: []string{"/tmp", "/var/tmp"}, Owner: "anybody",
			Why: "temporary folders keep scripts, keys and metadata tokens of the build", Regenerated: "nothing", Source: "amazon-eks-ami #1080",
		},
		{
			ID: "crash-dumps", Phase: Caches, Groups: append(caches, "secrets"), Verb: plan.Remove,
			Paths: []string{"/var/crash/*", "/var/lib/systemd/coredump/*", "/var/lib/systemd/pstore/*", "/var/lib/apport/coredump/*", "/var/spool/abrt/*", "/var/spool/abrt-upload/*"}, Owner: "systemd-coredump, systemd-pstore, kdump, apport, ABRT",
			Why: "crash dumps contain the memory of the build's programs, with their secrets", Regenerated: "nothing", Source: "virt-sysprep",
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
			Why:         "every node would run the jobs of the build's accounts and keep their mail; jobs of the image belong in /etc/cron.d",
			Regenerated: "nothing; the file .SEQ stays, because at needs it to accept jobs", Source: "virt-sysprep",
		},
		{
			ID: "home-caches", Phase: Caches, Groups: caches, Verb: plan.Remove,
			Paths: []string{
				"~/.cache", "~/.wget-hsts", "~/.lesshst", "~/.sudo_as_admin_successful", "~/.ansible/tmp", "~/.ansible/cp", "~/.ansible/galaxy_cache",
				"~/.local/share/recently-used.xbel", "/var/lib/sudo/lectured/*", "/var/db/sudo/lectured/*",
			}, Owner: "anybody",
			Why: "the files show what the people who built the image did", Regenerated: "nothing", Source: "virt-sysprep",
		},
		{
			ID: "timestamps", Phase: Caches, Groups: append(caches, "identity"), Verb: plan.Remove,
			Paths: []string{"/var/lib/systemd/timers/stamp-*", "/var/lib/logrotate/status", "/var/lib/logrotate/logrotate.status", "/var/lib/logrotate.status", "/var/spool/anacron/*"}, Owner: "systemd, logrotate, anacron",
			Why: "a node would skip a job because the builder machine ran it recently", Regenerated: "systemd, logrotate, anacron", Source: "virt-sysprep",
		},
	}
}

// atJobs matches the jobs of at(1): the letter of the queue, then digits.
const atJobs = "[a-zA-Z=]0*"
