package scrub

// commandPatterns are passwords in the arguments of commands.
func commandPatterns() []pattern {
	const given = `["']?([^\s"'$<>{}()|-][^\s"'$<>{}|]{2,})`
	row := func(hint, text string) pattern {
		return pattern{kind: "a password of a command", text: true, general: true, hints: []string{hint}, in: settings, value: 1, re: expression(text)}
	}
	return []pattern{
		row("mysql", `\bmysql\w*\b[^\n|;#]*?\s-p`+given),
		row("mysqladmin", `\bmysqladmin\b[^\n|;#]*?\spassword\s+`+given),
		row("mariadb", `\bmariadb[\w-]*\b[^\n|;#]*?\s-p`+given),
		row("sshpass", `\bsshpass\s+(?:-\w\s+)*-p\s*`+given),
		row("redis-cli", `\bredis-cli\b[^\n|;#]*?\s-a\s*`+given),
		row("ldap", `\bldap\w+\b[^\n|;#]*?\s-w\s*`+given),
		row("mongo", `\bmongo\w*\b[^\n|;#]*?\s-p\s*`+given),
		row("login", `\b(?:docker|podman|buildah|helm|skopeo|oras|nerdctl|crane|az|oc|argocd|cf)\b[^\n|;#]*?\blogin\b[^\n|;#]*?\s-p[\s=]*`+given),
		row("creds", `-creds[=\s]+["']?[^\s:"'$]+:`+given),
		row("ctr", `\bctr\b[^\n|;#]*?\s(?:-u|--user)[\s=]+["']?[^\s:"'$]+:`+given),
		row("-u", `\s-U[\s=]*["']?[\w.\\/-]+%`+given),
		row("chpasswd", `\becho\s+(?:-\w+\s+)?["']?[\w.-]+:([^\s"'$|:]{3,})["']?\s*\|\s*(?:sudo\s+)?[\w/]*chpasswd`),
		row("chpasswd", `\bchpasswd\s+<<<\s*["']?[\w.-]+:`+given),
		row("passwd", `\becho\s+(?:-\w+\s+)?["']?([^\s"'$|:]{3,})["']?\s*\|\s*(?:sudo\s+)?[\w/]*passwd\s+--stdin`),
		row("sudo", `\becho\s+(?:-\w+\s+)?["']?([^\s"'$|]{3,})["']?\s*\|\s*sudo\s+(?:-\w+\s+)*-\w*S`),
		row("pass:", `\s-(?:pass|passin|passout)\s+["']?pass:`+given),
		row("htpasswd", `\bhtpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+`+given),
		row("http", `\bhttps?\s[^\n|;#]*?(?:-a|--auth)[\s=]+["']?[^\s:"'$]+:`+given),
		row("pass=", `\buser(?:name)?=[^,\s]+,(?:[^\s]*,)?pass=([^,\s"'$]{3,})`),
		row("password=", `\buser(?:name)?=[^,\s]+,(?:[^\s]*,)?password=([^,\s"'$]{3,})`),
		row("password=", `(?:^|[\s,])password=([^,\s"'$]{3,}),(?:[^\s]*,)?user(?:name)?=`),
		row("--", `(?i)(?:^|[\s"'\[,])--?[\w-]*(?:password|passwd|passphrase|pass)["']?=["']?`+given),
		row("--", `(?i)(?:^|[\s"'\[,])--?[\w-]*(?:password|passwd|passphrase|pass)["']?,?\s+["']?([^\s"'$<>{}()|-][^\s"'$<>{}|]*\d[^\s"'$<>{}|]*)`),
		{kind: "a token of a command", text: true, general: true, hints: []string{"--"}, in: settings, value: 1, digit: true,
			re: expression(`(?i)(?:^|[\s"'\[,])--?[\w-]*(?:token|secret|api-?key|auth-?key|access-?key|secret-?key|certificate-key|psk|credentials)["',]*(?:=|\s+|,)\s*["']?([^\s"'$<>{}()|/-][^\s"'$<>{}|]{7,})`)},
		{kind: "a password of cloud-init", text: true, hints: []string{"chpasswd:"}, re: expression(`^\s*chpasswd:`),
			then: expression(`^[^\n]*(\n\s*(expire|list|users):[^\n]*)*\n\s*(-\s*)?["']?[a-z_][\w.-]*:[^\s:"'$]{4,}`)},
		{kind: "a password of cloud-init", text: true, hints: []string{"plain_text_passwd"}, value: 1, re: expression(`plain_text_passwd["']?\s*:\s*["']?([^\s"'$,}]{3,})`)},
		{kind: "a credential of systemd", text: true, hints: []string{"setcredential"}, re: expression(`(?i)^\s*SetCredential\s*=\s*["']?[^:\s]+:\s*\S{3,}`)},
		{kind: "a credential of systemd", text: true, hints: []string{"systemd.set_credential", "io.systemd.credential"}, re: expression(`(systemd\.set_credential(_binary)?=|io\.systemd\.credential(\.binary)?:)[^\s:=]+[:=]\S{3,}`)},
		{kind: "a token in a URL", text: true, general: true, hints: []string{"://"}, in: noSamples, digit: true, re: expression(`://[\w-]{20,}@[\w-]+\.`)},
		{kind: "a password in an address", text: true, general: true, hints: []string{"password=", "passwd=", "pwd=", "secret=", "token=", "apikey=", "api_key=", "sig=", "signature="}, in: noSamples, value: 1,
			re: expression(`(?i)(?:[?&;]|&amp;)\s*(?:[\w-]*password|passwd|pwd|(?:access|auth|api|private|client)?_?-?(?:token|secret)|api_?key|sig|signature)=([^\s&;"'<>$%{}]{6,})`)},
	}
}
