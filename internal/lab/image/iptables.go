package image

import (
	"os"
	"path/filepath"
)

// programFolders are where distributions put iptables.
var programFolders = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"}

// variants are iptables' two programs and the word that stands for each in the names by which they are called.
var variants = []struct{ program, word string }{
	{"xtables-nft-multi", "nft"}, {"xtables-legacy-multi", "legacy"},
}

// IPTables are the programs of iptables that this host has, under their usual names, with their libraries and extensions.
// None without an error: iptables is not installed.
func IPTables() ([]File, error) {
	l, plain := newLibraries(), ""
	for _, v := range variants {
		at := programAt(v.program)
		if at == "" {
			continue
		}
		if err := l.add(at); err != nil {
			return nil, err
		}
		if plain == "" {
			plain = filepath.Base(at)
		}
		for _, family := range []string{"iptables", "ip6tables"} {
			for _, does := range []string{"", "-restore", "-save"} {
				l.link(filepath.Join(filepath.Dir(at), family+"-"+v.word+does), v.program)
				l.link(filepath.Join(filepath.Dir(at), family+does), plain) // for who looks by hand
			}
		}
	}
	if len(l.files) > 0 {
		l.extensions()
	}
	return l.files, nil
}

// programAt finds a program of iptables. The name may be a link, or lead through a linked folder.
func programAt(name string) string {
	for _, d := range programFolders {
		if st, err := os.Stat(filepath.Join(d, name)); err == nil && st.Mode().IsRegular() {
			return filepath.Join(d, name)
		}
	}
	return ""
}

// extensions adds the folder in which iptables looks for its matches and targets. One whose libraries are missing does not
// work on the host either, and is left out.
func (l *libraries) extensions() {
	for _, d := range l.folders {
		if real, err := filepath.EvalSymlinks(d); err != nil || real != d {
			continue // the folder that it leads to is in the list as well
		}
		all, _ := filepath.Glob(filepath.Join(d, "xtables", "*.so"))
		for _, path := range all {
			if to := isLink(path); to != "" {
				l.link(path, to)
			} else {
				_ = l.add(path)
			}
		}
	}
}
