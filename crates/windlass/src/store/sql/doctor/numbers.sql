-- How much of the 32-bit numbers of each table has been used.
select relation, share from windlass.used_numbers()
