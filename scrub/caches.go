package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// cacheRules are the rows of caches and temporary files.
func cacheRules() []Rule {
	caches := []string{"caches"}
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
	}
}

// atJobs are at(1)'s jobs: the queue's letter and then numbers.
const atJobs = "[a-zA-Z=]0*"
