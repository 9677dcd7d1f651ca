// Package kills proves that nothing is lost when eksnode is killed: a provision,
// a scrub and a first boot are ended by SIGKILL at random points, on machines
// with a real systemd, apt and containerd. Each then runs again to its end, and
// the machine must be as one on which nobody disturbed it. All of it is in the
// tests:
//
//	go test -count=1 -tags e2e ./e2e/kills -kills 100 -timeout 45m -v
//
// A round is repeated with its name and the seed that the log begins with:
//
//	go test -count=1 -tags e2e ./e2e/kills -seed 1 -run TestKills/scrub/rounds/round_17
package kills
