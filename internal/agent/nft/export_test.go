package nft

// SmallBlocks makes a block of every segment that can be in one: the worlds of tests have few
// policies.
func SmallBlocks(c *Compiler) { c.least = 1 }

// NoBlocks makes none.
func NoBlocks(c *Compiler) { c.least = 1 << 30 }

// Blocks are the chains of blocks in the last Program.
func Blocks(c *Compiler) (names []string) {
	for name := range c.blocks {
		names = append(names, name)
	}
	return names
}
