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
				"/var/spool/at/spool/*", "/var/spool/atspool/*", "/var/spool/cron/crontabs/*", "/var/spool/cron/tabs/*", "/var/spool/cron/lastrun/*", "/var/spool/fcron/*",
				"/var/lib/dovecot/*", "/var/lib/postfix/*", "/var/spool/postfix/pid/*",
			}, Owner: "mail, at, crontab",
			Why:         "every node would run the jobs of the build's accounts and keep their mail; jobs of the image belong in /etc/cron.d",
			Regenerated: "nothing; the file .SEQ stays, because at needs it to accept jobs", Source: "virt-sysprep",
		},
		{
			ID: "crontabs", Phase: Caches, Groups: append(caches, "people"), Verb: plan.Remove,
			Paths: []string{"/var/spool/cron/[^.]*"},
			Keep: []string{
				"/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron/lastrun", "/var/spool/cron/atjobs", "/var/spool/cron/atspool",
			}, Owner: "crontab, where each account has a file in /var/spool/cron",
			Why:         "every node would run the jobs of the build's accounts; jobs of the image belong in /etc/cron.d",
			Regenerated: "nothing", Source: "virt-sysprep: cron-spool; crontab(1) of cronie",
		},
		{
			ID: "debconf-passwords", Phase: Caches, Groups: []string{"secrets", "packages"}, Verb: plan.Empty,
			Paths: []string{"/var/cache/debconf/passwords.dat"}, Owner: "debconf",
			Why: "the file has the answers to the passwords that packages asked for", Regenerated: "debconf, when a package needs an answer", Source: "debconf.conf(5)",
		},
		{
			ID: "login-failures", Phase: Caches, Groups: []string{"people", "logs"}, Verb: plan.Remove,
			Paths: []string{"/var/lib/faillock/*", "/var/log/faillock/*", "/var/log/tallylog", "/var/run/faillock/*", "/var/run/sepermit/*", "/var/run/console/*", "/var/lib/fprint/*", "/var/lib/AccountsService/users/*"}, Owner: "PAM, fprintd, AccountsService",
			Why: "the files name the accounts that logged in to the builder machine, and an account could start locked", Regenerated: "PAM, at the next login", Source: "virt-sysprep: pam-data, logfiles",
		},
		{
			ID: "process-accounting", Phase: Caches, Groups: []string{"people", "logs"}, Verb: plan.Empty,
			Paths: []string{"/var/account/pacct*"}, Owner: "acct, psacct",
			Why: "the records name every command that an account ran on the builder machine; the files stay, because accounting needs them", Regenerated: "the kernel", Source: "virt-sysprep: pacct-log",
		},
		{
			ID: "home-caches", Phase: Caches, Groups: caches, Verb: plan.Remove,
			Paths: []string{
				"~/.cache", "~/.wget-hsts", "~/.lesshst", "~/.sudo_as_admin_successful", "~/.ansible/tmp", "~/.ansible_async", "~/.ansible/cp", "~/.ansible/pull", "~/.ansible/galaxy_cache",
				"~/.local/share/recently-used.xbel", "/var/lib/sudo/lectured/*", "/var/db/sudo/lectured/*", "/var/lib/plocate/plocate.db", "/var/lib/mlocate/mlocate.db", "/var/cache/locate/locatedb",
				"/var/lib/toolbox/*",
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
